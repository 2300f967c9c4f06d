// The public merge operators on host tensors. Weights and sums are float32, as in the kernels.
#include <trencadis/composition.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "backends/cpu/host_tensor.h"
#include "base/check.h"

namespace trencadis {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// One state of one (row, head): a row of `tensor` at `o`.
struct State {
  const TensorView* tensor;
  const void* o;
  float lse;
};

/// Merges the states of a row. Buffers are kept from row to row.
class RowMerger {
 public:
  RowMerger(std::int64_t head_dim, LseBase base)
      : base_two_(base == LseBase::two),
        term_(static_cast<std::size_t>(head_dim)),
        sum_(term_.size()) {}

  std::vector<State>& states() { return states_; }

  /// The merged row goes to `out`, a row of `out_tensor`; returns its LSE. The operands are read
  /// before anything is written, so `out` may be one of them.
  float merge(const TensorView& out_tensor, void* out) {
    float largest = -kInfinity;
    for (const State& state : states_) largest = std::max(largest, state.lse);
    std::fill(sum_.begin(), sum_.end(), 0.0f);
    float total = 0.0f;
    for (const State& state : states_) {
      if (state.lse == -kInfinity) continue;  // whatever its o holds
      const float weight =
          base_two_ ? std::exp2(state.lse - largest) : std::exp(state.lse - largest);
      total += weight;
      cpu::load_row(*state.tensor, state.o, term_);
      for (std::size_t d = 0; d < sum_.size(); ++d) sum_[d] += weight * term_[d];
    }
    const bool empty = total == 0.0f;
    if (!empty)
      for (float& value : sum_) value /= total;
    cpu::store_row(out_tensor, sum_, out);
    if (empty) return -kInfinity;
    return largest + (base_two_ ? std::log2(total) : std::log(total));
  }

 private:
  bool base_two_;
  std::vector<float> term_, sum_;
  std::vector<State> states_;
};

float& lse_at(const TensorView& lse, std::int64_t i, std::int64_t j) {
  return *reinterpret_cast<float*>(cpu::at(lse, i, j));
}

/// out [n, H, D] and out_lse [n, H].
void expect_outputs(const TensorView& out, const TensorView& out_lse, DType dtype,
                    std::array<std::int64_t, 3> shape) {
  cpu::expect_tensor("out", out, dtype, shape);
  cpu::expect_tensor("out_lse", out_lse, DType::f32, std::array{shape[0], shape[1]});
}

void expect_rank(const char* name, const TensorView& tensor, int rank, const char* dims) {
  base::check(tensor.rank() == rank, "{} is {}, expected rank {}: {}", name, tensor, rank, dims);
}

}  // namespace

void merge_states(const TensorView& o_a, const TensorView& lse_a, const TensorView& o_b,
                  const TensorView& lse_b, const TensorView& out, const TensorView& lse,
                  LseBase base) {
  cpu::expect_floating("o_a", o_a);
  expect_rank("o_a", o_a, 3, "[n, H, D]");
  const std::array<std::int64_t, 3> shape{o_a.size(0), o_a.size(1), o_a.size(2)};
  const std::array<std::int64_t, 2> lse_shape{shape[0], shape[1]};
  cpu::expect_tensor("lse_a", lse_a, DType::f32, lse_shape);
  cpu::expect_tensor("o_b", o_b, o_a.dtype(), shape);
  cpu::expect_tensor("lse_b", lse_b, DType::f32, lse_shape);
  expect_outputs(out, lse, o_a.dtype(), shape);

  RowMerger merger(shape[2], base);
  for (std::int64_t i = 0; i < shape[0]; ++i)
    for (std::int64_t h = 0; h < shape[1]; ++h) {
      merger.states() = {{&o_a, cpu::at(o_a, i, h), lse_at(lse_a, i, h)},
                         {&o_b, cpu::at(o_b, i, h), lse_at(lse_b, i, h)}};
      lse_at(lse, i, h) = merger.merge(out, cpu::at(out, i, h));
    }
}

void merge_states(const TensorView& o, const TensorView& lse, const TensorView& out,
                  const TensorView& out_lse, LseBase base) {
  cpu::expect_floating("o", o);
  expect_rank("o", o, 4, "[n_states, n, H, D]");
  const std::array<std::int64_t, 3> shape{o.size(1), o.size(2), o.size(3)};
  cpu::expect_tensor("lse", lse, DType::f32, std::array{o.size(0), shape[0], shape[1]});
  expect_outputs(out, out_lse, o.dtype(), shape);

  RowMerger merger(shape[2], base);
  for (std::int64_t i = 0; i < shape[0]; ++i)
    for (std::int64_t h = 0; h < shape[1]; ++h) {
      merger.states().clear();
      for (std::int64_t s = 0; s < o.size(0); ++s)
        merger.states().push_back(
            {&o, cpu::at(o, s, i, h), *reinterpret_cast<float*>(cpu::at(lse, s, i, h))});
      lse_at(out_lse, i, h) = merger.merge(out, cpu::at(out, i, h));
    }
}

void merge_states_ragged(const TensorView& o, const TensorView& lse, IndexSpan indptr,
                         const TensorView& out, const TensorView& out_lse, LseBase base) {
  cpu::expect_floating("o", o);
  expect_rank("o", o, 3, "[nnz, H, D]");
  cpu::expect_tensor("lse", lse, DType::f32, std::array{o.size(0), o.size(1)});
  base::check(!indptr.empty() && indptr[0] == 0, "indptr starts with {}, expected 0",
              indptr.empty() ? "nothing" : fmt::to_string(indptr[0]));
  const auto rows = static_cast<std::int64_t>(indptr.size()) - 1;
  for (std::size_t i = 0; i + 1 < indptr.size(); ++i)
    base::check(indptr[i + 1] >= indptr[i], "indptr[{}] is {}, expected at least indptr[{}] = {}",
                i + 1, indptr[i + 1], i, indptr[i]);
  base::check(indptr[indptr.size() - 1] == o.size(0),
              "indptr ends with {}, expected the {} states of o", indptr[indptr.size() - 1],
              o.size(0));
  expect_outputs(out, out_lse, o.dtype(), {rows, o.size(1), o.size(2)});

  RowMerger merger(o.size(2), base);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t h = 0; h < o.size(1); ++h) {
      merger.states().clear();
      for (std::int64_t s = indptr[static_cast<std::size_t>(i)];
           s < indptr[static_cast<std::size_t>(i) + 1]; ++s)
        merger.states().push_back({&o, cpu::at(o, s, h), lse_at(lse, s, h)});
      lse_at(out_lse, i, h) = merger.merge(out, cpu::at(out, i, h));
    }
}

}  // namespace trencadis
