// A CTA with roles walks its part of a plan: one warpgroup brings the tiles of item after item, the
// others multiply (design: docs/decisions/0014).
#pragma once

#include "contract/params.h"
#include "contract/plan_image.h"
#include "cuda/collective/epilogue.h"
#include "cuda/collective/item.h"
#include "cuda/collective/queues.h"
#include "cuda/collective/ring_consumer.h"
#include "cuda/collective/ring_layout.h"
#include "cuda/collective/ring_producer.h"
#include "cuda/collective/row_scratch.h"
#include "cuda/collective/small_loop.h"
#include "cuda/collective/warpgroup_loop.h"
#include "cuda/ptx/mbarrier.h"
#include "cuda/ptx/sync.h"
#include "cuda/ptx/thread.h"
#include "cuda/ptx/warpgroup.h"
#include "variant/chain.h"
#include "variant/concept.h"

namespace trencadis::collective {

/// Hooks that the consumers can call. The others rewrite tiles of keys or values, or look at their
/// weights, which the loops of queues.h do.
inline constexpr variant::HookSet kRingHooks =
    variant::kQueryTransform | variant::kLogitsTransform | variant::kOutputTransform;

/// Rewrites the queries in shared memory: the hook, and the sign of a negative scale.
template <class Config>
TRENCADIS_DEVICE void transform_queries(const Launch<Config>& launch, const RingWork& work,
                                        int buffer) {
  using Functor = typename Config::Functor;
  using Layout = RingLayout<Config>;
  if constexpr (variant::kHasHook<Functor, variant::kQueryTransform>) {
    char* const shared = launch.shared;
    const int warp = ptx::warp_index();
    auto* scratch =
        reinterpret_cast<float*>(shared + Layout::kRowScratch + warp * Layout::kRowScratchBytes);
    for (int r = warp; r < work.block.rows; r += Config::kWarps) {
      const variant::RowCoord at =
          work.block.row_coord(ptx::load_shared<RowEntry>(Layout::row_entry(shared, buffer, r)));
      rewrite_row<typename Config::Element, typename Layout::QueryTile, Config::kHeadDimQk>(
          shared + Layout::kQuery + buffer * Layout::kQueryBytes, r, scratch,
          [&](const FloatRow& row, int d) {
            return Functor::query_transform(launch.variant, row, d, at);
          });
    }
    ptx::show_to_products();
    sync_consumers<Config>();
  }
  if (!kScalesLogits<Config> && launch.negate) [[unlikely]] {
    negate_rows<typename Layout::QueryTile>(
        ptx::shared_place(launch.shared) + (Layout::kQuery + buffer * Layout::kQueryBytes),
        work.block.rows, ptx::thread_index(), Layout::kThreads);
    ptx::show_to_products();
    sync_consumers<Config>();
  }
}

/// The rows of an item are written. If they are partial states, the consumers may have to merge.
template <class Config>
TRENCADIS_DEVICE void arrive(const Launch<Config>& launch, const contract::PlanImage& plan,
                             RingWork& work) {
  if (work.to.is_final()) return;
  arrive(launch, plan, work.block, work.to, work.slot, work.is_last,
         [] { sync_consumers<Config>(); });
}

/// The item in turn, and perhaps some that follow it.
template <class Config, class Tile>
TRENCADIS_DEVICE void run_ring_tile(const Launch<Config>& launch, const contract::PlanImage& plan,
                                    RingItems<Config>& items, RingReader<Config>& ring) {
  if constexpr (Tile::kRows == 16) {
    using Loop = SmallLoop<Config, Tile>;
    Loop loop(launch, items.buffer());
    loop.run(ring);
    Epilogue<Config, Loop>(loop, loop.work().to).run();
    arrive(launch, plan, loop.work());
    items.finish();
  } else {
    using Loop = WarpgroupLoop<Config, Tile>;
    Loop(launch, items.buffer()).run(items, ring, [&](const typename Loop::Rows& rows) {
      if (Loop::has_rows(rows.item.work()))
        WarpEpilogue<Config, typename Loop::Rows>(rows, rows.item.work().to).run();
      arrive(launch, plan, rows.item.work());
    });
  }
}

/// Calls run_ring_tile for the class with the index `tile_class`.
template <class Config, int kIndex, class First, class... Rest>
TRENCADIS_DEVICE void run_ring_class(TileClasses<First, Rest...>, int tile_class,
                                     const Launch<Config>& launch, const contract::PlanImage& plan,
                                     RingItems<Config>& items, RingReader<Config>& ring) {
  if constexpr (sizeof...(Rest) > 0) {
    if (tile_class != kIndex)
      return run_ring_class<Config, kIndex + 1>(TileClasses<Rest...>{}, tile_class, launch, plan,
                                                items, ring);
  }
  run_ring_tile<Config, First>(launch, plan, items, ring);
}

template <class Config>
TRENCADIS_DEVICE void consume(const Launch<Config>& launch, const contract::PlanImage& plan) {
  using Layout = RingLayout<Config>;
  RingReader<Config> ring(launch.shared);
  RingItems<Config> items(launch.shared);
  // The first turn is the first warpgroup's.
  const bool first = ptx::warp_index() < 4;
  if (!first) ptx::arrive_threads_named(kTurns, Layout::kThreads);
  while (true) {
    const RingWork& work = items.await();
    if (work.tile_class == RingWork::kNoMore) break;
    transform_queries(launch, work, items.buffer());
    run_ring_class<Config, 0>(typename Config::TileClasses{}, work.tile_class, launch, plan, items,
                              ring);
  }
  if (first) ptx::sync_threads_named(kTurns, Layout::kThreads);
}

/// To be followed by a barrier.
template <class Config>
TRENCADIS_DEVICE void make_ring(const contract::AttentionParams& params, char* shared) {
  using Layout = RingLayout<Config>;
  if (ptx::thread_index() != 0) return;
  // Of copies every producer thread arrives, of what it stored every warp's first lane.
  constexpr int kProducers = Layout::kProducerThreads + Layout::kProducerWarps;
  for (int i = 0; i < Layout::kSlots; ++i) {
    ptx::make_barrier(Layout::full(shared, i), kProducers);
    ptx::make_barrier(Layout::empty(shared, i), Config::kWarps);
  }
  for (int i = 0; i < Layout::kQueries; ++i) {
    ptx::make_barrier(Layout::queries_full(shared, i), kProducers);
    ptx::make_barrier(Layout::queries_empty(shared, i), Config::kWarps);
  }
  Layout::strides(shared) = RingStrides::of<typename Config::Element>(params);
}

/// One CTA a queue, as in queues.h.
template <class Config>
TRENCADIS_DEVICE void run_ring(const contract::AttentionParams& params,
                               const contract::PlanImage& plan) {
  using Layout = RingLayout<Config>;
  variant::check_variant<typename Config::Functor, typename Config::Params, kRingHooks>();
  // The next kernel may take the place of CTAs that end, and read its own plan, before all have.
  ptx::launch_dependents();
  // What the producer reads first is on its way while the CTA makes its barriers.
  if (ptx::thread_index() == 0) ptx::prefetch(plan.queues() + ptx::cta_index());
  const Launch<Config> launch = make_launch<Config>(params, plan, Layout::kLaunch);
  make_ring<Config>(params, launch.shared);
  ptx::sync_cta();
  if (ptx::thread_index() >= Layout::kThreads) {
    ptx::shrink_registers<Layout::kProducerRegisters>();
    RingProducer<Config>(launch, plan).run();
  } else {
    ptx::grow_registers<Layout::kConsumerRegisters>();
    consume(launch, plan);
    ptx::wait_for_dependencies();
    write_empty(launch, plan);
  }
}

template <class Config, class Tile>
TRENCADIS_FN constexpr int ring_tile_bytes() {
  if constexpr (Tile::kRows == 16) return SmallShape<Config, Tile>::kBytes;
  return RingLayout<Config>::kStates;
}
template <class Config, class... Tiles>
TRENCADIS_FN constexpr int ring_bytes(TileClasses<Tiles...>) {
  int bytes = 0;
  ((bytes = max_of(bytes, ring_tile_bytes<Config, Tiles>())), ...);
  return bytes;
}

}  // namespace trencadis::collective
