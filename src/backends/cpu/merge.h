// The public merge on host tensors whose shapes have been checked. Undefined out_lse: not wanted.
#pragma once

#include <trencadis/composition.h>

#include <cstdint>

namespace trencadis::cpu {

/// Rows of `n` that `options` ask for. Throws Error(invalid_argument).
std::int64_t rows_to_merge(const MergeOptions& options, std::int64_t n);

void merge_states(const TensorView& o_a, const TensorView& lse_a, const TensorView& o_b,
                  const TensorView& lse_b, const TensorView& out, const TensorView& out_lse,
                  const MergeOptions& options);

void merge_states(const TensorView& o, const TensorView& lse, const TensorView& out,
                  const TensorView& out_lse, const MergeOptions& options);

/// Throws Error(invalid_argument) where indptr does not ascend from 0 or more to at most nnz, as
/// far as the rows that are merged go, before anything is written.
void merge_states_ragged(const TensorView& o, const TensorView& lse, IndexSpan indptr,
                         const TensorView& out, const TensorView& out_lse,
                         const MergeOptions& options);

}  // namespace trencadis::cpu
