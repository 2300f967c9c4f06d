// Which query and KV tiles a request is cut into: a function of its own fused length (tokens times
// group size) and of the device, never of the rest of the batch.
#pragma once

#include <trencadis/attention_spec.h>
#include <trencadis/device_limits.h>

#include <array>
#include <cstdint>

#include "contract/plan.h"

namespace trencadis::planner {

inline constexpr int kMaxQueryTile = 128;

/// The tile classes that a device has for a spec, ascending in T_q, and which one a length gets.
struct TilePolicy {
  std::array<contract::TileClass, contract::kMaxTileClasses> classes{};
  std::array<std::int32_t, contract::kMaxTileClasses> kv_shift{};  // log2 of T_kv
  int count = 0;
  /// Class of a request with 0 .. kMaxQueryTile fused rows; more rows get the largest.
  std::array<std::uint8_t, kMaxQueryTile + 1> by_rows{};

  int class_of(std::int64_t fused_rows) const {
    return by_rows[static_cast<std::size_t>(fused_rows < kMaxQueryTile ? fused_rows
                                                                       : kMaxQueryTile)];
  }
  std::int32_t largest_query_tile() const {
    return classes[static_cast<std::size_t>(count - 1)].q_rows;
  }
};

/// Throws Error(not_supported) where not even the smallest tiles fit the device's tile memory.
TilePolicy choose_tiles(const AttentionSpec& spec, const DeviceLimits& device);

/// Bytes of a query tile and two stages of K and V tiles.
std::int64_t tile_bytes(const AttentionSpec& spec, contract::TileClass tiles);

}  // namespace trencadis::planner
