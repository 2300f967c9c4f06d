#include "planner/even_cut.h"

#include <algorithm>

namespace trencadis::planner {
namespace {

using contract::MergeGroup;
using contract::WorkItem;
using contract::WorkSegment;

/// A point of the line: before KV tile `tile` of item `item` of head `head`.
struct Point {
  std::int32_t head;
  std::int32_t item;
  std::int32_t tile;
};

/// The item that holds cost `at` of a head's line: line[item] <= at < line[item + 1]. Written so
/// that the compiler needs no branch: the searches of a plan are independent and overlap.
std::int32_t find_item(const Nanoseconds* line, std::int32_t count, Nanoseconds at) {
  const Nanoseconds* first = line;
  while (count > 1) {
    const std::int32_t half = count / 2;
    first = first[half] <= at ? first + half : first;
    count -= half;
  }
  return static_cast<std::int32_t>(first - line);
}

/// Turns the runs between two points into segments, pieces and merges.
class Writer {
 public:
  Writer(const HeadWork& work, const TilePolicy* tiles, Schedule& schedule)
      : work_(work), tiles_(tiles), schedule_(schedule) {
    schedule_.num_items = work.num_items;
  }

  void queue(Point from, Point to) {
    if (from.tile > 0) {
      const bool ends_inside = from.head == to.head && from.item == to.item;
      piece(from.head, from.item, from.tile, ends_inside ? to.tile : kToTheEnd);
      if (ends_inside) return;
      ++from.item;
    }
    for (std::int32_t head = from.head; head <= to.head; ++head) {
      const std::int32_t end = head == to.head ? to.item : work_.num_items;
      if (from.item < end) {
        schedule_.segments.push_back({head, from.item, end, head * work_.num_slots});
      }
      from.item = 0;
    }
    if (to.tile > 0) piece(to.head, to.item, 0, to.tile);
  }

 private:
  static constexpr std::int32_t kToTheEnd = -1;

  void piece(std::int32_t head, std::int32_t item, std::int32_t first_tile, std::int32_t end_tile) {
    const WorkItem& whole = work_.items[item];
    const std::uint8_t tile_class = work_.blocks[whole.row_block].tile_class;
    const std::int32_t shift = tiles_->kv_shift[tile_class];
    const std::int32_t slot = schedule_.num_slots++;
    const std::int32_t own = schedule_.num_items++;
    work_.items[own] = {
        .row_block = whole.row_block,
        .kv_begin = whole.kv_begin + (first_tile << shift),
        .kv_end = end_tile == kToTheEnd ? whole.kv_end : whole.kv_begin + (end_tile << shift),
        .slot = 0,
    };
    schedule_.segments.push_back({head, own, own + 1, slot});
    schedule_.slot_rows = std::max(schedule_.slot_rows, tiles_->classes[tile_class].q_rows);
    if (first_tile == 0) {
      schedule_.merges.push_back({whole.row_block, head, slot, 1});
    } else {
      ++schedule_.merges.back().slot_count;
    }
  }

  const HeadWork& work_;
  const TilePolicy* tiles_;
  Schedule& schedule_;
};

/// Places the cuts s, 2 s, 3 s, ... of the line and writes the queue before each.
template <class Locate>
void write_queues(const HeadWork& work, Nanoseconds share, Locate locate, Writer writer,
                  Schedule& schedule) {
  const Nanoseconds head_cost = work.total();
  Point from{0, 0, 0};
  Point to{0, 0, 0};
  Nanoseconds at = 0;  // of the cut, on the line of head to.head
  for (std::int32_t q = 0; q < schedule.num_queues; ++q) {
    schedule.queues[q].segment_begin = static_cast<std::int32_t>(schedule.segments.size());
    if (from.head < schedule.num_heads) {
      at += share;
      while (at >= head_cost && to.head < schedule.num_heads) {
        at -= head_cost;
        ++to.head;
      }
      to = to.head < schedule.num_heads ? locate(to.head, at) : Point{to.head, 0, 0};
      writer.queue(from, to);
      from = to;
    }
    schedule.queues[q].segment_end = static_cast<std::int32_t>(schedule.segments.size());
  }
}

}  // namespace

void cut_evenly(const HeadWork& work, const TilePolicy& tiles, const CostModel& cost,
                Schedule& schedule) {
  if (work.num_items == 0) return cut_between_items(work, schedule);
  const Nanoseconds slowest_tile =
      *std::max_element(cost.tile.begin(), cost.tile.begin() + tiles.count);
  const Nanoseconds total = work.total() * schedule.num_heads;
  const Nanoseconds share = std::max(contract::ceil_div<Nanoseconds>(total, schedule.num_queues),
                                     cost.item + slowest_tile);
  const auto locate = [&](std::int32_t head, Nanoseconds at) -> Point {
    const std::int32_t item = find_item(work.line, work.num_items, at);
    const std::uint8_t tile_class = work.blocks[work.items[item].row_block].tile_class;
    const Nanoseconds tile_cost = cost.tile[tile_class];
    // Rounded to the nearest tile; the item's own overhead lies before its first tile.
    const Nanoseconds before = at - work.line[item] - cost.item;
    const Nanoseconds cut =
        std::max<Nanoseconds>(0, before + tile_cost / 2) / tile_cost * tile_cost;
    const Nanoseconds after = work.cost(item) - cost.item - cut;
    if (std::min(cut, after) >= cost.item) {
      return {head, item, static_cast<std::int32_t>(cut / tile_cost)};
    }
    return {head, cut <= after ? item : item + 1, 0};
  };
  write_queues(work, share, locate, Writer(work, &tiles, schedule), schedule);
}

void cut_between_items(const HeadWork& work, Schedule& schedule) {
  const Nanoseconds total = work.total() * schedule.num_heads;
  const Nanoseconds share = contract::ceil_div<Nanoseconds>(total, schedule.num_queues);
  const auto locate = [&](std::int32_t head, Nanoseconds at) -> Point {
    const std::int32_t item = find_item(work.line, work.num_items, at);
    return {head, at - work.line[item] < work.line[item + 1] - at ? item : item + 1, 0};
  };
  write_queues(work, share, locate, Writer(work, nullptr, schedule), schedule);
  schedule.num_slots = work.num_slots * schedule.num_heads;
}

}  // namespace trencadis::planner
