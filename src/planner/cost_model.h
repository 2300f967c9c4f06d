// What a work item is predicted to cost on a device. Whole nanoseconds, so that sums do not depend
// on their order and equal inputs give equal plans on every machine.
#pragma once

#include <trencadis/attention_spec.h>
#include <trencadis/device_limits.h>

#include <array>
#include <cstdint>

#include "contract/plan.h"
#include "planner/tile_policy.h"

namespace trencadis::planner {

using Nanoseconds = std::int64_t;

/// Costs a tile class: an item of n visible KV tiles takes item + n * tile.
struct CostModel {
  Nanoseconds item = 1;                                       // prologue and epilogue
  std::array<Nanoseconds, contract::kMaxTileClasses> tile{};  // one KV tile
  /// What a cut inside an item costs: the prologue and epilogue that it adds, and two partial
  /// states that are written and read.
  std::array<Nanoseconds, contract::kMaxTileClasses> split{};
  /// Whether products bound a tile whose K and V come from a cache. From memory each CTA has its
  /// share of the bandwidth only, and that may bound it all the same.
  std::array<bool, contract::kMaxTileClasses> bound_by_products{};

  Nanoseconds of(int tile_class, std::int64_t tiles) const {
    return item + tiles * tile[static_cast<std::size_t>(tile_class)];
  }
};

/// The slower of reading a KV tile at a CTA's share of the bandwidth and multiplying it at its
/// share of the matrix units, plus the fixed cost of a tile. Rows that a tile pads are multiplied
/// too.
CostModel make_cost_model(const AttentionSpec& spec, const DeviceLimits& device,
                          const TilePolicy& tiles);

inline std::int32_t tiles_of(const contract::WorkItem& item, std::int32_t kv_shift) {
  return ((item.kv_end - item.kv_begin - 1) >> kv_shift) + 1;
}

}  // namespace trencadis::planner
