// How a CTA walks its part of a plan: the work queues of the attention kernel, the merge groups of
// the contraction.
#pragma once

#include "contract/params.h"
#include "contract/plan.h"
#include "cuda/collective/item.h"
#include "cuda/collective/merge.h"
#include "cuda/ptx/sync.h"
#include "cuda/ptx/thread.h"
#include "variant/concept.h"

namespace trencadis::collective {

/// One CTA a queue; a grid of another size walks the queues in steps of itself.
template <class Config>
TRENCADIS_DEVICE void run_queues(const contract::AttentionParams& params,
                                 const contract::PlanHeader* header) {
  variant::check_variant<typename Config::Functor, typename Config::Params, kDeviceHooks>();
  // The plan and the tensors may come from the kernel before.
  ptx::wait_for_dependencies();
  const contract::PlanView plan{header};
  const Launch<Config> launch = make_launch<Config>(params, plan);
  for (int q = ptx::cta_index(); q < header->num_queues; q += ptx::num_ctas()) {
    const contract::WorkQueue queue = plan.queues()[q];
    for (int s = queue.segment_begin; s < queue.segment_end; ++s) {
      const contract::WorkSegment segment = plan.segments()[s];
      for (int i = segment.item_begin; i < segment.item_end; ++i)
        run_item<Config>(launch, plan, segment, plan.items()[i]);
    }
  }
  ptx::launch_dependents();
}

/// A warp a row of each split row block.
template <class Config>
TRENCADIS_DEVICE void run_merges(const contract::AttentionParams& params,
                                 const contract::PlanHeader* header) {
  ptx::wait_for_dependencies();
  const contract::PlanView plan{header};
  const Step step = make_step(params, plan);
  const typename Config::Params variant = Config::Params::load(params.variant);
  const int warps = ptx::cta_threads() / 32;
  for (int m = ptx::cta_index(); m < header->num_merges; m += ptx::num_ctas()) {
    const contract::MergeGroup group = plan.merges()[m];
    const Block block = make_block(params, step, plan.row_blocks()[group.row_block], group.kv_head);
    for (int r = ptx::warp_index(); r < block.rows; r += warps)
      merge_row<Config>(params, variant, block, r, group, header->slot_rows);
  }
}

}  // namespace trencadis::collective
