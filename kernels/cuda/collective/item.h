// One work item: the loop that its tile class asks for, then the epilogue.
#pragma once

#include "contract/params.h"
#include "contract/plan.h"
#include "cuda/collective/block.h"
#include "cuda/collective/epilogue.h"
#include "cuda/collective/shape.h"
#include "cuda/collective/tensor_loop.h"
#include "cuda/collective/vector_loop.h"
#include "variant/hooks.h"

namespace trencadis::collective {

/// Hooks that the loops of this room can call.
inline constexpr variant::HookSet kDeviceHooks = variant::kAllHooks;

template <class Config, class Tile>
TRENCADIS_DEVICE void run_tile(const Launch<Config>& launch, const Block& block, int begin, int end,
                               const Destination& to) {
  if constexpr (Tile::kRows == 1) {
    VectorLoop<Config, Tile>(launch, block).run(begin, end, to);
  } else {
    using Loop = TensorLoop<Config, Tile>;
    Loop loop(launch, block);
    loop.run(begin, end);
    Epilogue<Config, Loop>(launch.params, launch.variant, block, to, launch.shared).run(loop);
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

template <class Config>
TRENCADIS_DEVICE void run_item(const Launch<Config>& launch, const contract::PlanView& plan,
                               const contract::WorkSegment& segment,
                               const contract::WorkItem& item) {
  const contract::RowBlock rows = plan.row_blocks()[item.row_block];
  const Block block = make_block(launch.params, launch.step, rows, segment.kv_head);
  const bool through = item.slot == contract::kWriteThrough;
  const Destination to{through ? contract::kWriteThrough : segment.slot_base + item.slot,
                       plan.header->slot_rows};
  run_class<Config, 0>(typename Config::TileClasses{}, rows.tile_class, launch, block,
                       item.kv_begin, item.kv_end, to);
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
