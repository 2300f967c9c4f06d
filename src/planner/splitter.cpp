#include "planner/splitter.h"

#include <algorithm>

namespace trencadis::planner {
namespace {

using contract::MergeGroup;
using contract::WorkItem;

bool is_lone(const HeadWork& work, std::int32_t i) {
  const std::int32_t row = work.blocks[i].block_row;
  return (i == 0 || work.blocks[i - 1].block_row != row) &&
         (i + 1 == work.num_items || work.blocks[i + 1].block_row != row);
}

/// Chunks of whole item i.
std::int32_t chunks_of(const HeadWork& whole, std::int32_t i, const TilePolicy& tiles,
                       const ChunkRule& rule) {
  const std::uint8_t tile_class = whole.blocks[i].tile_class;
  const std::int32_t max_tiles = rule.max_tiles[tile_class];
  const std::int32_t count = tiles_of(whole.items[i], tiles.kv_shift[tile_class]);
  if (count <= max_tiles || (rule.lone_blocks_only && !is_lone(whole, i))) return 1;
  return (count - 1) / max_tiles + 1;
}

/// The merges of head 0 are in place; the other heads repeat them in their own slots.
void repeat_merges(std::int32_t num_heads, std::int64_t num_merges, std::int32_t num_slots,
                   MergeGroup* merges) {
  MergeGroup* next = merges + num_merges;
  for (std::int32_t head = 1; head < num_heads; ++head) {
    for (std::int64_t i = 0; i < num_merges; ++i) {
      *next = merges[i];
      next->kv_head = head;
      next->slot_begin += head * num_slots;
      ++next;
    }
  }
}

}  // namespace

ChunkRule fixed_chunks(const TilePolicy& tiles, std::int64_t tokens) {
  ChunkRule rule;
  for (std::size_t i = 0; i < static_cast<std::size_t>(tiles.count); ++i) {
    const std::int64_t count = ((tokens - 1) >> tiles.kv_shift[i]) + 1;
    rule.max_tiles[i] = static_cast<std::int32_t>(std::min<std::int64_t>(count, kUnsplit));
  }
  return rule;
}

ChunkRule balanced_chunks(const HeadWork& whole, int num_heads, int num_queues,
                          const TilePolicy& tiles, const CostModel& cost) {
  const Nanoseconds tile_work = (whole.total() - whole.num_items * cost.item) * num_heads;
  const Nanoseconds bound =
      std::max(cost.item, contract::ceil_div<Nanoseconds>(tile_work, num_queues));
  ChunkRule rule{.equal = true};
  for (std::size_t i = 0; i < static_cast<std::size_t>(tiles.count); ++i) {
    const Nanoseconds count = contract::ceil_div(bound, cost.tile[i]);
    rule.max_tiles[i] = static_cast<std::int32_t>(std::min<Nanoseconds>(count, kUnsplit));
  }
  return rule;
}

ChunkCount count_chunks(const HeadWork& whole, const TilePolicy& tiles, const ChunkRule& rule) {
  ChunkCount count;
  for (std::int32_t i = 0; i < whole.num_items; ++i) {
    const std::int32_t chunks = chunks_of(whole, i, tiles, rule);
    count.items += chunks;
    count.slots += chunks > 1 ? chunks : 0;
    count.merges += chunks > 1;
  }
  return count;
}

HeadWork split(const HeadWork& whole, const TilePolicy& tiles, const CostModel& cost,
               const ChunkRule& rule, std::int64_t merges, WorkItem* items, Nanoseconds* line,
               Schedule& schedule) {
  HeadWork work{.blocks = whole.blocks, .items = items, .line = line};
  MergeGroup* const first_merge = schedule.merges.room(merges * schedule.num_heads);
  MergeGroup* merge = first_merge;
  line[0] = 0;
  for (std::int32_t i = 0; i < whole.num_items; ++i) {
    const WorkItem& item = whole.items[i];
    const std::uint8_t tile_class = whole.blocks[i].tile_class;
    const std::int32_t shift = tiles.kv_shift[tile_class];
    const std::int64_t count = tiles_of(item, shift);
    const std::int32_t chunks = chunks_of(whole, i, tiles, rule);
    const bool splits = chunks > 1;
    if (splits) {
      *merge++ = {i, 0, work.num_slots, chunks};
      schedule.slot_rows = std::max(schedule.slot_rows, tiles.classes[tile_class].q_rows);
    }
    std::int64_t begin = 0;
    for (std::int64_t chunk = 1; chunk <= chunks; ++chunk) {
      const std::int64_t end = rule.equal        ? chunk * count / chunks
                               : chunk == chunks ? count
                                                 : chunk * rule.max_tiles[tile_class];
      const std::int32_t n = work.num_items++;
      items[n] = {
          .row_block = i,
          .kv_begin = item.kv_begin + static_cast<std::int32_t>(begin << shift),
          .kv_end =
              end == count ? item.kv_end : item.kv_begin + static_cast<std::int32_t>(end << shift),
          .slot = splits ? work.num_slots++ : contract::kWriteThrough,
      };
      line[n + 1] = line[n] + cost.of(tile_class, end - begin);
      begin = end;
    }
  }
  repeat_merges(schedule.num_heads, merges, work.num_slots, first_merge);
  schedule.merges.set_size(merges * schedule.num_heads);
  return work;
}

}  // namespace trencadis::planner
