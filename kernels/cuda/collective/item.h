// One work item: the loop that its tile class asks for, the epilogue, and the merge that it
// completes.
#pragma once

#include "contract/params.h"
#include "contract/plan_image.h"
#include "cuda/collective/block.h"
#include "cuda/collective/epilogue.h"
#include "cuda/collective/merge.h"
#include "cuda/collective/shape.h"
#include "cuda/collective/tensor_loop.h"
#include "cuda/collective/vector_loop.h"
#include "cuda/ptx/cp_async.h"
#include "cuda/ptx/sync.h"
#include "variant/hooks.h"

namespace trencadis::collective {

/// Hooks that the loops of this room can call.
inline constexpr variant::HookSet kDeviceHooks = variant::kAllHooks;

template <class Config, class Loop, bool kWarpsWrite = Loop::Shape::kWarpsWrite>
struct EpilogueOf {
  using Type = Epilogue<Config, Loop>;
};
template <class Config, class Loop>
struct EpilogueOf<Config, Loop, true> {
  using Type = WarpEpilogue<Config, Loop>;
};

template <class Config, class Tile>
TRENCADIS_DEVICE void run_tile(const Launch<Config>& launch, const Block& block, int begin, int end,
                               const Destination& to) {
  if constexpr (Tile::kRows == 1) {
    VectorLoop<Config, Tile>(launch, block).run(begin, end, to);
  } else {
    using Loop = TensorLoop<Config, Tile>;
    Loop loop(launch, block);
    loop.run(begin, end);
    typename EpilogueOf<Config, Loop>::Type(loop, to).run();
  }
}

/// Calls run_tile for the class with the index `tile_class`.
template <class Config, int kIndex, class First, class... Rest>
TRENCADIS_DEVICE void run_class(TileClasses<First, Rest...>, int tile_class,
                                const Launch<Config>& launch, const Block& block, int begin,
                                int end, const Destination& to) {
  if (tile_class == kIndex) {
    run_tile<Config, First>(launch, block, begin, end, to);
  } else if constexpr (sizeof...(Rest) > 0) {
    run_class<Config, kIndex + 1>(TileClasses<Rest...>{}, tile_class, launch, block, begin, end,
                                  to);
  }
}

/// What a CTA is at, in its shared memory.
struct Work {
  Block block;
  int tile_class;
  int kv_begin, kv_end;
  Destination to;
  contract::WorkSegment segment;
  int segment_end;  // of the queue
  int is_last;      // of its merge, to arrive
  // These come with the first tile.
  contract::ImageSlot slot;  // where partial states are written
  contract::ImageItem next;

  TRENCADIS_DEVICE static Work& of(char* shared) {
    return *reinterpret_cast<Work*>(shared + kLaunchBytes);
  }
};
static_assert(sizeof(Work) <= kWorkBytes);

/// For the whole CTA. Nobody reads the work before.
template <class Config>
TRENCADIS_DEVICE void take_item(const Launch<Config>& launch, const contract::PlanImage& plan,
                                const contract::WorkSegment& segment, int index,
                                const contract::ImageItem& item, int segment_end) {
  if (ptx::thread_index() == 0) {
    Work& work = Work::of(launch.shared);
    work.block = make_block(launch.params, item.block, segment.kv_head);
    work.tile_class = item.block.tile_class;
    work.kv_begin = item.kv_begin;
    work.kv_end = item.kv_end;
    work.to = {contract::kWriteThrough, plan.slot_rows};
    work.segment = segment;
    work.segment_end = segment_end;
    if (item.slot != contract::kWriteThrough) {
      work.to.slot = segment.slot_base + item.slot;
      ptx::copy_async_16(&work.slot, plan.slots() + work.to.slot, true);
    }
    if (index + 1 < segment.item_end) {
      const char* const next = reinterpret_cast<const char*>(plan.items() + index + 1);
      for (int i = 0; i < int(sizeof(contract::ImageItem)); i += 16)
        ptx::copy_async_16(reinterpret_cast<char*>(&work.next) + i, next + i, true);
    }
  }
  ptx::sync_cta();
}

/// The partial states of a block are written. If they were the last of their merge, those who come
/// here merge; they meet by sync(). `is_last` is theirs, in shared memory.
template <class Config, class Sync>
TRENCADIS_DEVICE void arrive(const Launch<Config>& launch, const contract::PlanImage& plan,
                             const Block& block, const Destination& to,
                             const contract::ImageSlot& slot, int& is_last, Sync sync) {
  ptx::fence_device();
  sync();
  if (ptx::thread_index() == 0) {
    int* const arrivals = const_cast<int*>(plan.arrivals()) + slot.merge;
    is_last = ptx::atomic_add(arrivals, 1) == slot.slot_count - 1;
    if (is_last) *arrivals = 0;  // for the next run of the plan
  }
  sync();
  if (!is_last) return;
  ptx::fence_device();
  merge_block(FinalRow<Config>(launch.params, launch.variant), block, slot, to.slot_rows);
}

/// Nobody reads the work afterwards.
template <class Config>
TRENCADIS_DEVICE void run_item(const Launch<Config>& launch, const contract::PlanImage& plan) {
  Work& work = Work::of(launch.shared);
  run_class<Config, 0>(typename Config::TileClasses{}, work.tile_class, launch, work.block,
                       work.kv_begin, work.kv_end, work.to);
  if (!work.to.is_final())
    arrive(launch, plan, work.block, work.to, work.slot, work.is_last, [] { ptx::sync_cta(); });
}

template <class Config, class Tile, bool kOneRow = Tile::kRows == 1>
struct ShapeFor {
  using Shape = TileShape<Config, Tile>;
};
template <class Config, class Tile>
struct ShapeFor<Config, Tile, true> {
  using Shape = VectorShape<Config, Tile>;
};
template <class Config, class Tile>
using ShapeOf = typename ShapeFor<Config, Tile>::Shape;

/// Dynamic shared memory of the kernel, in bytes.
template <class Config, class... Tiles>
TRENCADIS_FN constexpr int shared_bytes(TileClasses<Tiles...>) {
  int bytes = 0;
  ((bytes = max_of(bytes, ShapeOf<Config, Tiles>::kBytes)), ...);
  return bytes;
}

}  // namespace trencadis::collective
