// Splitting items into chunks before they are placed: fixed splits, and the chunk bound of
// Algorithm 1 of the paper.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

#include "planner/schedule.h"

namespace trencadis::planner {

inline constexpr std::int32_t kUnsplit = std::numeric_limits<std::int32_t>::max();

struct ChunkRule {
  std::array<std::int32_t, contract::kMaxTileClasses> max_tiles{};  // a chunk, by class; kUnsplit
  /// Chunks of one item as equal as tiles allow. Else each but the last has max_tiles, so that a
  /// growing request keeps the cuts it has.
  bool equal = false;
  /// Only block rows of one row block are split; longer queries are parallel as they are.
  bool lone_blocks_only = false;
};

/// Every `tokens`, rounded up to T_kv.
ChunkRule fixed_chunks(const TilePolicy& tiles, std::int64_t tokens);

/// L_kv of Algorithm 1: with b = (tile work of all heads) / #queues, chunks of at least b. An item
/// with work w > b becomes at most ceil(w / b) <= 2 w / b chunks, so all together fill at most
/// 2 #queues slots.
ChunkRule balanced_chunks(const HeadWork& whole, int num_heads, int num_queues,
                          const TilePolicy& tiles, const CostModel& cost);

/// What a rule makes of one head.
struct ChunkCount {
  std::int64_t items = 0;
  std::int64_t slots = 0;
  std::int64_t merges = 0;
};
ChunkCount count_chunks(const HeadWork& whole, const TilePolicy& tiles, const ChunkRule& rule);

/// Writes the chunks to `items` and `line` ([count.items] and one more), and to the schedule the
/// merges of all heads, of which one head has `merges`: head h has the slots
/// [h * num_slots, (h + 1) * num_slots). Returns the work of one head.
HeadWork split(const HeadWork& whole, const TilePolicy& tiles, const CostModel& cost,
               const ChunkRule& rule, std::int64_t merges, contract::WorkItem* items,
               Nanoseconds* line, Schedule& schedule);

}  // namespace trencadis::planner
