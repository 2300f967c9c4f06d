#include "support/run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "backends/reference/stock_variants.h"
#include "support/device_mirror.h"

namespace trencadis::testing {
namespace {

constexpr double kLsePoison = 123.0;

/// [T, H, D] inside of [T, H + 1, D + 8], so that neither rows nor heads are packed.
class GuardedOutput {
 public:
  GuardedOutput(DType dtype, std::int64_t tokens, std::int64_t heads, std::int64_t dim)
      : storage_(dtype, {tokens, heads + 1, dim + 8}, kNan),
        view_(storage_.whole().slice(1, 0, heads).slice(2, 0, dim)) {}

  TensorView view() const { return view_; }

  /// Everything outside of the view still holds NaN.
  bool guard_is_intact() const {
    const TensorView whole = storage_.whole();
    const auto count_numbers = [](const TensorView& view) {
      const std::vector<double> values = to_doubles(view);
      return std::count_if(values.begin(), values.end(), [](double x) { return !std::isnan(x); });
    };
    const TensorView head = whole.slice(1, view_.size(1), whole.size(1));
    const TensorView tail = whole.slice(1, 0, view_.size(1)).slice(2, view_.size(2), whole.size(2));
    return count_numbers(head) == 0 && count_numbers(tail) == 0;
  }

 private:
  HostTensor storage_;
  TensorView view_;
};

/// The tensors of `args` go to the device and the outputs come back.
void run_on_device(Attention& attention, const RunArgs& args) {
  const DeviceMirror q(args.q), k(args.k), v(args.v), out(args.out), lse(args.lse),
      sinks(args.sinks);
  std::vector<DeviceMirror> mirrors;
  std::vector<TensorView> tensors;
  for (const TensorView& tensor : args.tensors)
    tensors.push_back(mirrors.emplace_back(tensor).view());
  RunArgs there = args;
  there.q = q.view();
  there.k = k.view();
  there.v = v.view();
  there.out = out.view();
  there.lse = lse.view();
  there.sinks = sinks.view();
  there.tensors = tensors;
  attention.run(there);
  out.fetch();
  lse.fetch();
}

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](double x, double y) {
           return std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y);
         });
}

}  // namespace

bool same_bits(const Output& a, const Output& b) {
  return same_bits(a.out, b.out) && same_bits(a.lse, b.lse);
}

Output rows_of(const Output& output, const Problem& problem, std::int64_t begin, std::int64_t end) {
  const std::int64_t heads = problem.config.heads.qo, dim = problem.spec.vo();
  const auto part = [&](const std::vector<double>& all, std::int64_t width) {
    if (all.empty()) return all;
    return std::vector<double>(all.begin() + begin * width, all.begin() + end * width);
  };
  return {part(output.out, heads * dim), part(output.lse, heads)};
}

Output rows_with_keys(const Output& output, const Problem& problem) {
  Output result;
  for (std::size_t b = 0; b < problem.kv_lens.size(); ++b) {
    if (problem.kv_lens[b] == 0) continue;
    const Output rows = rows_of(output, problem, problem.qo_indptr[b], problem.qo_indptr[b + 1]);
    result.out.insert(result.out.end(), rows.out.begin(), rows.out.end());
    result.lse.insert(result.lse.end(), rows.lse.begin(), rows.lse.end());
  }
  return result;
}

Output collect(const Problem& problem, const std::function<void(const RunArgs&)>& compute) {
  const std::int64_t heads = problem.config.heads.qo;
  const GuardedOutput out(problem.spec.dtype_o, problem.nnz_q(), heads, problem.spec.vo());
  const HostTensor lse_storage(DType::f32, {heads, problem.nnz_q()}, kLsePoison);
  const std::int64_t shape[] = {problem.nnz_q(), heads};
  const std::int64_t strides[] = {1, problem.nnz_q()};  // head-major, as some frameworks keep it
  const TensorView lse(lse_storage.whole().data(), DType::f32, shape, strides);

  std::vector<TensorView> views;
  RunArgs args = problem.run_args(views);
  args.out = out.view();
  if (problem.spec.variant.use_softmax) args.lse = lse;
  compute(args);

  EXPECT_TRUE(out.guard_is_intact()) << "bytes between the rows of the output were written";
  Output output{to_doubles(out.view()), {}};
  if (problem.spec.variant.use_softmax) output.lse = to_doubles(lse);
  return output;
}

Output run(Attention& attention, const Problem& problem) {
  return collect(problem, [&](const RunArgs& args) {
    if (attention.backend() == BackendKind::cuda)
      run_on_device(attention, args);
    else
      attention.run(args);
  });
}

Output run_engine(const Problem& problem) {
  return run_engine(problem, problem.config.backend);
}

Output run_engine(const Problem& problem, BackendKind backend) {
  AttentionConfig config = problem.config;
  config.backend = backend;
  Attention attention(problem.spec, config);
  attention.plan(problem.plan_input());
  return run(attention, problem);
}

reference::Problem reference_problem(const Problem& problem) {
  reference::Problem result;
  const std::int64_t block = problem.matrix.block_cols;
  result.heads = problem.config.heads;
  result.q = problem.q;
  result.k = reference::as_blocks(problem.k, problem.config.layout, block);
  result.v = reference::as_blocks(problem.v, problem.config.layout, block);
  result.qo_indptr = problem.qo_indptr;
  result.kv_lens = problem.kv_lens;
  result.kv = problem.matrix.view();
  result.bounds = problem.spec.variant.bounds;
  result.sm_scale = problem.config.sm_scale;
  result.lse_base = problem.spec.lse_base;
  result.use_softmax = problem.spec.variant.use_softmax;
  if (problem.spec.variant.sinks) result.sinks = to_doubles(problem.sinks.whole());
  if (problem.hooks) {
    result.hooks = *problem.hooks;
    return result;
  }
  std::vector<const void*> tensors;
  for (const HostTensor& tensor : problem.tensors) tensors.push_back(tensor.whole().data());
  result.hooks = reference::stock_hooks(problem.spec.variant, tensors, problem.scalars);
  return result;
}

Output run_reference(const Problem& problem) {
  reference::Result result = reference::attention(reference_problem(problem));
  return {std::move(result.out), std::move(result.lse)};
}

}  // namespace trencadis::testing
