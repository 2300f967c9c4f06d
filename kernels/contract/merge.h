// Arguments of the kernels that merge states of the public operator; the contraction of a plan's
// slots has contract/params.h. Strides are in elements and 64-bit; D is contiguous.
#pragma once

#include <cstdint>

namespace trencadis::contract {

/// States (O, LSE): o [states, rows, H, D], lse [states, rows, H].
struct StateList {
  const void* o;
  const float* lse;
  std::int64_t o_stride_state, o_stride_row, o_stride_head;
  std::int64_t lse_stride_state, lse_stride_row, lse_stride_head;
};
static_assert(sizeof(StateList) == 64);

/// Row i merges states, in order:
///   two-way  state 0 of `first` and state 0 of `second`, at row i;
///   n-way    states 0 .. num_states of `first`, at row i;
///   ragged   states indptr[i] .. indptr[i + 1] of `first`, which has one row.
/// `out` may be `first` or `second`, with the same strides, and `out_lse` likewise; a ragged merge
/// has no such place.
struct MergeStatesParams {
  StateList first;
  StateList second;            // two-way; zeros else
  const std::int32_t* indptr;  // [rows + 1]; ragged
  void* out;                   // [rows, H, D]
  float* out_lse;              // [rows, H]; null: not wanted
  std::int64_t out_stride_row, out_stride_head;
  std::int64_t out_lse_stride_row, out_lse_stride_head;
  const std::int32_t* num_rows;  // [1], at most `rows`; null: `rows`
  std::int64_t rows;             // room for them
  std::int32_t num_states;       // n-way
  std::int32_t num_heads;
  std::int32_t head_dim;
  std::int32_t lse_base_two;      // 1: the operands' LSE are in base 2
  std::int32_t out_lse_base_two;  // 1: the result's is
  std::int32_t unused;
};
static_assert(sizeof(MergeStatesParams) == 2 * 64 + 72 + 24);

}  // namespace trencadis::contract
