// The functions of composition.h: checks, then the backend of the tensors' device.
#include <trencadis/composition.h>

#include <algorithm>
#include <array>

#include "backends/cpu/host_tensor.h"
#include "backends/cpu/merge.h"
#include "backends/cuda/merge_states.h"
#include "base/check.h"
#include "engine/argument.h"

namespace trencadis {
namespace {

using engine::Argument;

/// What messages call the operands, and what shapes they have.
struct StatesNames {
  const char* o;
  const char* lse;
};

class MergeCheck {
 public:
  MergeCheck(const TensorView& out, const TensorView& out_lse, const MergeOptions& options)
      : out_(out), out_lse_(out_lse), device_(out.device()) {
    const Argument result("out", out);
    result.expect_floating(device_, 3, "[n, H, D]");
    check_rows("out", out);
    if (out_lse.defined()) {
      const Argument lse("out_lse", out_lse);
      lse.expect(DType::f32, device_, 2);
      lse.expect_shape(std::array{out.size(0), out.size(1)});
    }
    if (options.num_rows.defined())
      Argument("num_rows", options.num_rows).expect_array(DType::i32, device_, 1);
  }

  /// Operands of the leading extents `leading`, and [H, D] of the result.
  template <std::size_t kLeading>
  void check_states(StatesNames names, const TensorView& o, const TensorView& lse,
                    const std::array<std::int64_t, kLeading>& leading, const char* dims) const {
    std::array<std::int64_t, kLeading + 2> shape;
    std::ranges::copy(leading, shape.begin());
    shape[kLeading] = out_.size(1);
    shape[kLeading + 1] = out_.size(2);
    const Argument argument(names.o, o);
    argument.expect_floating(device_, static_cast<int>(shape.size()), dims);
    argument.expect_shape(shape);
    check_rows(names.o, o);
    const Argument logs(names.lse, lse);
    logs.expect(DType::f32, device_, static_cast<int>(shape.size()) - 1);
    logs.expect_shape(std::span(shape).first(shape.size() - 1));
  }

  /// A result that begins where an operand does lies in it.
  void check_in_place(StatesNames names, const TensorView& o, const TensorView& lse) const {
    check_same("out", out_, names.o, o);
    if (out_lse_.defined()) check_same("out_lse", out_lse_, names.lse, lse);
  }

  void check_apart(StatesNames names, const TensorView& o, const TensorView& lse) const {
    base::check(!begin_together(out_, o) && !begin_together(out_lse_, lse),
                "out is {} and lies in {}, {}, or out_lse in {}: a ragged merge has no place there",
                out_, names.o, o, names.lse);
  }

 private:
  void check_rows(const char* name, const TensorView& tensor) const {
    if (device_.kind == DeviceKind::cuda) Argument(name, tensor).expect_unit_stride();
  }

  static bool begin_together(const TensorView& a, const TensorView& b) {
    return a.data() == b.data() && a.num_elements() > 0 && b.num_elements() > 0;
  }

  /// The trailing dimensions of `operand` are those of `result`.
  static void check_same(const char* name, const TensorView& result, const char* operand_name,
                         const TensorView& operand) {
    if (!begin_together(result, operand)) return;
    const auto strides = operand.strides().last(static_cast<std::size_t>(result.rank()));
    bool same = result.dtype() == operand.dtype();
    for (int dim = 0; dim < result.rank(); ++dim)
      same = same && (result.size(dim) <= 1 ||
                      result.stride(dim) == strides[static_cast<std::size_t>(dim)]);
    base::check(same, "{} is {} and lies in {}, {}: expected the same dtype and strides", name,
                result, operand_name, operand);
  }

  const TensorView& out_;
  const TensorView& out_lse_;
  Device device_;
};

bool on_cpu(const TensorView& tensor) {
  return tensor.device().kind == DeviceKind::cpu;
}

void check_one_dtype(const TensorView& o_a, const TensorView& o_b) {
  if (o_a.dtype() != o_b.dtype())
    base::fail(ErrorKind::type_mismatch, "o_b is {}, expected the dtype of o_a, {}", o_b, o_a);
}

/// Of a ragged merge, but for indptr.
void check_ragged(const TensorView& o, const TensorView& lse, const TensorView& out,
                  const TensorView& out_lse, const MergeOptions& options) {
  const MergeCheck check(out, out_lse, options);
  base::check(o.rank() == 3, "o is {}, expected rank 3: [nnz, H, D]", o);
  check.check_states({"o", "lse"}, o, lse, std::array{o.size(0)}, "[nnz, H, D]");
  check.check_apart({"o", "lse"}, o, lse);
}

}  // namespace

void merge_states(const TensorView& o_a, const TensorView& lse_a, const TensorView& o_b,
                  const TensorView& lse_b, const TensorView& out, const TensorView& out_lse,
                  const MergeOptions& options) {
  const MergeCheck check(out, out_lse, options);
  const std::array rows{out.size(0)};
  check.check_states({"o_a", "lse_a"}, o_a, lse_a, rows, "[n, H, D]");
  check.check_states({"o_b", "lse_b"}, o_b, lse_b, rows, "[n, H, D]");
  check_one_dtype(o_a, o_b);
  check.check_in_place({"o_a", "lse_a"}, o_a, lse_a);
  check.check_in_place({"o_b", "lse_b"}, o_b, lse_b);
  if (on_cpu(out))
    cpu::merge_states(o_a, lse_a, o_b, lse_b, out, out_lse, options);
  else
    cuda::merge_states(o_a, lse_a, o_b, lse_b, out, out_lse, options);
}

void merge_states(const TensorView& o, const TensorView& lse, const TensorView& out,
                  const TensorView& out_lse, const MergeOptions& options) {
  const MergeCheck check(out, out_lse, options);
  base::check(o.rank() == 4, "o is {}, expected rank 4: [n_states, n, H, D]", o);
  check.check_states({"o", "lse"}, o, lse, std::array{o.size(0), out.size(0)},
                     "[n_states, n, H, D]");
  for (std::int64_t i = 0; i < o.size(0); ++i)
    check.check_in_place({"o", "lse"}, o.select(0, i), lse.select(0, i));
  if (on_cpu(out))
    cpu::merge_states(o, lse, out, out_lse, options);
  else
    cuda::merge_states(o, lse, out, out_lse, options);
}

void merge_states_ragged(const TensorView& o, const TensorView& lse, const TensorView& indptr,
                         const TensorView& out, const TensorView& out_lse,
                         const MergeOptions& options) {
  check_ragged(o, lse, out, out_lse, options);
  Argument("indptr", indptr).expect_array(DType::i32, out.device(), out.size(0) + 1);
  if (on_cpu(out))
    cpu::merge_states_ragged(o, lse, cpu::index_span(indptr), out, out_lse, options);
  else
    cuda::merge_states_ragged(o, lse, indptr, out, out_lse, options);
}

void merge_states_ragged(const TensorView& o, const TensorView& lse, IndexSpan indptr,
                         const TensorView& out, const TensorView& out_lse,
                         const MergeOptions& options) {
  check_ragged(o, lse, out, out_lse, options);
  if (!on_cpu(out))
    base::fail(ErrorKind::type_mismatch,
               "out is {}, expected a tensor on the CPU: on a GPU, indptr is a tensor there too",
               out);
  const std::size_t rows = static_cast<std::size_t>(out.size(0));
  base::check(indptr.size() == rows + 1,
              "indptr has {} entries, expected one more than out's {} "
              "rows",
              indptr.size(), rows);
  base::check(indptr[0] == 0, "indptr starts with {}, expected 0", indptr[0]);
  base::check(indptr[rows] == o.size(0), "indptr ends with {}, expected the {} states of o",
              indptr[rows], o.size(0));
  cpu::merge_states_ragged(o, lse, indptr, out, out_lse, options);
}

}  // namespace trencadis
