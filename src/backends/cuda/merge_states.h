// The public merge on a device, for tensors that have been checked as for append_kv (append.h).
// Throw as launch_service().
#pragma once

#include <trencadis/composition.h>

namespace trencadis::cuda {

void merge_states(const TensorView& o_a, const TensorView& lse_a, const TensorView& o_b,
                  const TensorView& lse_b, const TensorView& out, const TensorView& out_lse,
                  const MergeOptions& options);

void merge_states(const TensorView& o, const TensorView& lse, const TensorView& out,
                  const TensorView& out_lse, const MergeOptions& options);

void merge_states_ragged(const TensorView& o, const TensorView& lse, const TensorView& indptr,
                         const TensorView& out, const TensorView& out_lse,
                         const MergeOptions& options);

}  // namespace trencadis::cuda
