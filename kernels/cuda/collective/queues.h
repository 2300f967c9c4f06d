// How a CTA walks its part of a plan.
#pragma once

#include "contract/params.h"
#include "contract/plan_image.h"
#include "cuda/collective/epilogue.h"
#include "cuda/collective/item.h"
#include "cuda/ptx/sync.h"
#include "cuda/ptx/thread.h"
#include "variant/concept.h"

namespace trencadis::collective {

/// The items of a queue, one after another.
template <class Config>
TRENCADIS_DEVICE void run_queue(const Launch<Config>& launch, const contract::PlanImage& plan,
                                const contract::ImageQueue& queue) {
  const Work& work = Work::of(launch.shared);
  int s = queue.segment_begin;
  int i = queue.first_segment.item_begin;
  take_item(launch, plan, queue.first_segment, i, queue.first_item, queue.segment_end);
  while (true) {
    // Tensors, and the states of a run of this plan, may come from the kernel before.
    ptx::wait_for_dependencies();
    run_item(launch, plan);
    contract::WorkSegment segment = work.segment;
    const int segment_end = work.segment_end;
    if (++i < segment.item_end) {
      const contract::ImageItem item = work.next;
      ptx::sync_cta();
      take_item(launch, plan, segment, i, item, segment_end);
      continue;
    }
    if (s == segment_end) break;
    segment = plan.segments()[s++];
    i = segment.item_begin;
    ptx::sync_cta();
    take_item(launch, plan, segment, i, plan.items()[i], segment_end);
  }
  ptx::sync_cta();
}

/// Row blocks that see no key, of all heads: what pads a batch.
template <class Config>
TRENCADIS_DEVICE void write_empty(const Launch<Config>& launch, const contract::PlanImage& plan) {
  const FinalRow<Config> to(launch.params, launch.variant);
  for (int b = ptx::cta_index(); b < plan.num_empty; b += ptx::num_ctas()) {
    Block block = make_block(launch.params, plan.empty()[b], 0);
    for (int i = ptx::warp_index(); i < block.rows * launch.params.num_kv_heads;
         i += Config::kWarps) {
      block.kv_head = i / block.rows;
      const RowEntry row = block.row(i - block.kv_head * block.rows);
      for (int d = ptx::lane_index() * to.kRun; d < Config::kHeadDimVo; d += 32 * to.kRun) {
        float zeros[FinalRow<Config>::kRun] = {};
        to.store(block, row, d, zeros);
      }
      if (ptx::lane_index() == 0) to.store_lse(block, row, {negative_infinity(), 0.0f});
    }
  }
}

/// One CTA a queue; a grid of another size walks the queues in steps of itself.
template <class Config>
TRENCADIS_DEVICE void run_queues(const contract::AttentionParams& params,
                                 const contract::PlanImage& plan) {
  variant::check_variant<typename Config::Functor, typename Config::Params, kDeviceHooks>();
  // The next kernel may take the place of CTAs that end, and read its own plan, before all have.
  ptx::launch_dependents();
  const Launch<Config> launch = make_launch<Config>(params, plan);
  for (int q = ptx::cta_index(); q < plan.num_queues; q += ptx::num_ctas())
    run_queue(launch, plan, plan.queues()[q]);
  ptx::wait_for_dependencies();
  write_empty(launch, plan);
}

}  // namespace trencadis::collective
