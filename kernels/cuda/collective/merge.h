// The contraction: partial states of each split row block become its final rows, in the order of
// the plan, so that the bits do not depend on who finished first.
#pragma once

#include "contract/params.h"
#include "contract/plan.h"
#include "cuda/collective/block.h"
#include "cuda/collective/epilogue.h"
#include "cuda/collective/softmax.h"
#include "cuda/ptx/thread.h"

namespace trencadis::collective {

/// Weight of a state with natural LSE `lse`, relative to `max`.
TRENCADIS_DEVICE float weight_of(float lse, float max) {
  return lse == negative_infinity() ? 0.0f : ptx::exp2_approx((lse - max) * kLog2E);
}

/// One row by one warp.
template <class Config>
TRENCADIS_DEVICE void merge_row(const contract::AttentionParams& params,
                                const typename Config::Params& variant, const Block& block, int r,
                                const contract::MergeGroup& group, int slot_rows) {
  const auto state = [&](int i) { return Destination{group.slot_begin + i, slot_rows}.row(r); };
  // A slot has its whole weight in its LSE.
  RowTotal total{negative_infinity(), Config::kUseSoftmax ? 0.0f : 1.0f};
  if constexpr (Config::kUseSoftmax) {
    for (int i = 0; i < group.slot_count; ++i)
      total.max = fmaxf(total.max, params.partial_lse[state(i)]);
    for (int i = 0; i < group.slot_count; ++i)
      total.sum += weight_of(params.partial_lse[state(i)], total.max);
  }
  const RowEntry row = block.row(r);
  const float normaliser = FinalRow<Config>::normaliser(params, row, total);
  for (int d = ptx::lane_index(); d < Config::kHeadDimVo; d += 32) {
    float value = 0.0f;
    for (int i = 0; i < group.slot_count; ++i) {
      const float weight =
          Config::kUseSoftmax ? weight_of(params.partial_lse[state(i)], total.max) : 1.0f;
      // An empty state is ignored whatever its o holds.
      if (weight != 0.0f) value += weight * params.partial_o[state(i) * Config::kHeadDimVo + d];
    }
    FinalRow<Config>::store(params, variant, block, row, d, value * normaliser);
  }
  if (ptx::lane_index() == 0) FinalRow<Config>::store_lse(params, block, row, total);
}

}  // namespace trencadis::collective
