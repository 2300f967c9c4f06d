#include "backends/cuda/merge_states.h"

#include <algorithm>

#include "backends/cuda/service_arguments.h"
#include "backends/cuda/service_kernels.h"
#include "contract/merge.h"

namespace trencadis::cuda {
namespace {

using codegen::Service;

/// [states, rows, H, D]
contract::StateList stacked(const TensorView& o, const TensorView& lse) {
  return {.o = o.data(),
          .lse = lse.data_as<const float>(),
          .o_stride_state = o.stride(0),
          .o_stride_row = o.stride(1),
          .o_stride_head = o.stride(2),
          .lse_stride_state = lse.stride(0),
          .lse_stride_row = lse.stride(1),
          .lse_stride_head = lse.stride(2)};
}

/// [rows, H, D], one state.
contract::StateList one_state(const TensorView& o, const TensorView& lse) {
  return {.o = o.data(),
          .lse = lse.data_as<const float>(),
          .o_stride_state = 0,
          .o_stride_row = o.stride(0),
          .o_stride_head = o.stride(1),
          .lse_stride_state = 0,
          .lse_stride_row = lse.stride(0),
          .lse_stride_head = lse.stride(1)};
}

/// [states, H, D], one row.
contract::StateList listed(const TensorView& o, const TensorView& lse) {
  return {.o = o.data(),
          .lse = lse.data_as<const float>(),
          .o_stride_state = o.stride(0),
          .o_stride_row = 0,
          .o_stride_head = o.stride(1),
          .lse_stride_state = lse.stride(0),
          .lse_stride_row = 0,
          .lse_stride_head = lse.stride(1)};
}

/// All but the operands.
contract::MergeStatesParams result_of(const TensorView& out, const TensorView& out_lse,
                                      const MergeOptions& options) {
  const bool with_lse = out_lse.defined();
  return {.first = {},
          .second = {},
          .indptr = nullptr,
          .out = out.data(),
          .out_lse = out_lse.data_as<float>(),
          .out_stride_row = out.stride(0),
          .out_stride_head = out.stride(1),
          .out_lse_stride_row = with_lse ? out_lse.stride(0) : 0,
          .out_lse_stride_head = with_lse ? out_lse.stride(1) : 0,
          .num_rows = options.num_rows.data_as<const std::int32_t>(),
          .rows = out.size(0),
          .num_states = 0,
          .num_heads = count32("H", out.size(1)),
          .head_dim = count32("D", out.size(2)),
          .lse_base_two = options.base == LseBase::two ? 1 : 0,
          .out_lse_base_two = options.out_base.value_or(options.base) == LseBase::two ? 1 : 0,
          .unused = 0};
}

void launch(Service service, const contract::MergeStatesParams& params, const TensorView& o,
            const TensorView& out, const MergeOptions& options) {
  if (params.rows == 0 || params.num_heads == 0) return;
  launch_service({.service = service,
                  .from = o.dtype(),
                  .to = out.dtype(),
                  .ordinal = out.device().index,
                  .bytes = static_cast<double>(out.num_elements()) *
                           static_cast<double>(std::max(size_of(o.dtype()), size_of(out.dtype()))),
                  .stream = options.stream},
                 &params);
}

}  // namespace

void merge_states(const TensorView& o_a, const TensorView& lse_a, const TensorView& o_b,
                  const TensorView& lse_b, const TensorView& out, const TensorView& out_lse,
                  const MergeOptions& options) {
  contract::MergeStatesParams params = result_of(out, out_lse, options);
  params.first = one_state(o_a, lse_a);
  params.second = one_state(o_b, lse_b);
  launch(Service::merge_pair, params, o_a, out, options);
}

void merge_states(const TensorView& o, const TensorView& lse, const TensorView& out,
                  const TensorView& out_lse, const MergeOptions& options) {
  contract::MergeStatesParams params = result_of(out, out_lse, options);
  params.first = stacked(o, lse);
  params.num_states = count32("the number of states", o.size(0));
  launch(Service::merge_stacked, params, o, out, options);
}

void merge_states_ragged(const TensorView& o, const TensorView& lse, const TensorView& indptr,
                         const TensorView& out, const TensorView& out_lse,
                         const MergeOptions& options) {
  contract::MergeStatesParams params = result_of(out, out_lse, options);
  params.first = listed(o, lse);
  params.indptr = indptr.data_as<const std::int32_t>();
  launch(Service::merge_ragged, params, o, out, options);
}

}  // namespace trencadis::cuda
