#include "planner/even_cut.h"

#include <algorithm>
#include <bit>

namespace trencadis::planner {
namespace {

using contract::MergeGroup;
using contract::WorkItem;
using contract::WorkSegment;

/// The item that holds cost `at` of a head's line: line[item] <= at < line[item + 1]. Written so
/// that the compiler needs no branch: the searches of a plan are independent and overlap.
std::int32_t find_item(const Nanoseconds* line, std::int32_t num_items, Nanoseconds at) {
  const Nanoseconds* first = line;
  for (auto count = static_cast<std::uint32_t>(num_items); count > 1;) {
    const std::uint32_t half = count >> 1;
    first = first[half] <= at ? first + half : first;
    count -= half;
  }
  return static_cast<std::int32_t>(first - line);
}

}  // namespace

/// Turns the parts of the line between two points into segments and pieces.
///
/// Nearly free of branches: a value is always written, and the count says whether it stays. Whether
/// a cut falls inside an item is as good as random, and a mispredicted branch costs as much as ten
/// stores. So there must be room for one value more than stays.
class EvenCut::Writer {
 public:
  Writer(const HeadWork& work, Schedule& schedule)
      : items_(work.items),
        num_items_(work.num_items),
        slots_a_head_(work.num_slots),
        segments_(schedule.segments.room(3 * schedule.num_queues + schedule.num_heads + 1)) {}

  std::int32_t num_segments() const { return num_segments_; }
  std::int32_t num_pieces() const { return num_pieces_; }

  /// Whole items only: a segment for each head that the part enters.
  void run(Point from, Point to) {
    for (std::int32_t head = from.head; head <= to.head; ++head) {
      const std::int32_t end = head == to.head ? to.item : num_items_;
      segments_[num_segments_] = {head, from.item, end, head * slots_a_head_};
      num_segments_ += from.item < end;
      from.item = 0;
    }
  }

  /// The end of the item that `from` lies in, whole items, the start of the item that `to` lies in.
  void part(Point from, Point to) {
    if (from.inside() && from.head == to.head && from.item == to.item) {
      piece(from, from.kv, to.kv, true);
      return;
    }
    piece(from, from.kv, items_[from.item].kv_end, from.inside());
    from.item += from.inside();
    run(from, to);
    piece(to, items_[to.item].kv_begin, to.kv, to.inside());
  }

 private:
  /// KV range [begin, end) of the item at `at`, if `keep`. Each piece is an item behind the whole
  /// ones and has a slot, both in the order of the line. Whole items are row blocks, one to one.
  void piece(Point at, std::int32_t begin, std::int32_t end, bool keep) {
    const std::int32_t own = num_items_ + num_pieces_;
    items_[own] = {at.item, begin, end, 0};
    segments_[num_segments_] = {at.head, own, own + 1, num_pieces_};
    num_segments_ += keep;
    num_pieces_ += keep;
  }

  WorkItem* const items_;
  const std::int32_t num_items_;
  const std::int32_t slots_a_head_;
  WorkSegment* const segments_;
  std::int32_t num_segments_ = 0;
  std::int32_t num_pieces_ = 0;
};

/// One merge for each (item, head) that is cut. The first cut inside an item makes two pieces of
/// it, each further one a third, a fourth; a merge ends where the next begins.
void EvenCut::merge_pieces(std::int32_t num_pieces, Schedule& schedule) const {
  MergeGroup* merges = schedule.merges.room(schedule.num_queues + 1);
  std::int32_t count = 0;
  std::int32_t slot = 0;
  Point last{-1, -1, 0};
  for (const Point cut : cuts_.values()) {
    const bool again = cut.head == last.head && cut.item == last.item && last.inside();
    const bool first = cut.inside() && !again;
    merges[count] = {cut.item, cut.head, slot, 0};
    count += first;
    slot += cut.inside() + first;
    last = cut;
  }
  for (std::int32_t m = 0; m < count; ++m) {
    const std::int32_t end = m + 1 < count ? merges[m + 1].slot_begin : num_pieces;
    merges[m].slot_count = end - merges[m].slot_begin;
  }
  schedule.merges.set_size(count);
}

/// Cuts at start + step, start + 2 step, ... of the line, and at both its ends.
template <class Locate>
void EvenCut::place_cuts(const HeadWork& work, const Schedule& schedule, Nanoseconds start,
                         Nanoseconds step, Locate locate) {
  const Nanoseconds head_cost = work.total();
  const Point end{schedule.num_heads, 0, 0};
  Point* cuts = cuts_.room(schedule.num_queues + 1);
  cuts[0] = {0, 0, 0};
  std::int32_t head = 0;
  Nanoseconds at = start;  // of the cut, on the line of its head
  for (std::int32_t q = 1; q <= schedule.num_queues; ++q) {
    at += step;
    while (at >= head_cost && head < end.head) {
      at -= head_cost;
      ++head;
    }
    cuts[q] = head < end.head ? locate(head, at) : end;
  }
  cuts_.set_size(schedule.num_queues + 1);
}

void EvenCut::cut_evenly(const HeadWork& work, const TilePolicy& tiles, const CostModel& cost,
                         Schedule& schedule) {
  if (work.num_items == 0) return cut_between_items(work, schedule);
  const Nanoseconds slowest_tile =
      *std::max_element(cost.tile.begin(), cost.tile.begin() + tiles.count);
  // A queue that begins inside an item pays for a prologue that is not on the line, so every queue
  // but the first gets that much less of it.
  const Nanoseconds total = work.total() * schedule.num_heads;
  const Nanoseconds step = std::max(
      contract::ceil_div<Nanoseconds>(total - cost.item, schedule.num_queues), slowest_tile);
  std::uint32_t split_classes = 0;  // bit c: an item of class c is split
  place_cuts(work, schedule, cost.item, step, [&](std::int32_t head, Nanoseconds at) -> Point {
    const std::int32_t item = find_item(work.line, work.num_items, at);
    const std::uint8_t tile_class = work.blocks[item].tile_class;
    const Nanoseconds tile_cost = cost.tile[tile_class];
    // The nearest tile; the item's own overhead lies before its first.
    const Nanoseconds before = std::max<Nanoseconds>(0, at - work.line[item] - cost.item);
    const Nanoseconds tile = (before + tile_cost / 2) / tile_cost;
    const Nanoseconds cut = tile * tile_cost;
    const Nanoseconds after = work.cost(item) - cost.item - cut;
    const bool pays = std::min(cut, after) >= cost.item;
    split_classes |= std::uint32_t{pays} << tile_class;
    const std::int32_t kv =
        work.items[item].kv_begin + static_cast<std::int32_t>(tile << tiles.kv_shift[tile_class]);
    return {head, item + (!pays && cut > after), pays ? kv : 0};
  });

  Writer writer(work, schedule);
  const std::span<const Point> cuts = cuts_.values();
  for (std::size_t q = 0; q + 1 < cuts.size(); ++q) {
    const std::int32_t begin = writer.num_segments();
    writer.part(cuts[q], cuts[q + 1]);
    schedule.queues[q] = {begin, writer.num_segments()};
  }
  merge_pieces(writer.num_pieces(), schedule);
  schedule.segments.set_size(writer.num_segments());
  schedule.num_items = work.num_items + writer.num_pieces();
  schedule.num_slots = writer.num_pieces();
  // Classes ascend in T_q: the largest that is split decides how many rows a slot has.
  const int largest = std::bit_width(split_classes) - 1;
  schedule.slot_rows = largest < 0 ? 0 : tiles.classes[static_cast<std::size_t>(largest)].q_rows;
}

void EvenCut::cut_between_items(const HeadWork& work, Schedule& schedule) {
  const Nanoseconds total = work.total() * schedule.num_heads;
  const Nanoseconds share = contract::ceil_div<Nanoseconds>(total, schedule.num_queues);
  place_cuts(work, schedule, 0, share, [&](std::int32_t head, Nanoseconds at) -> Point {
    const std::int32_t item = find_item(work.line, work.num_items, at);
    return {head, at - work.line[item] < work.line[item + 1] - at ? item : item + 1, 0};
  });

  Writer writer(work, schedule);
  const std::span<const Point> cuts = cuts_.values();
  for (std::size_t q = 0; q + 1 < cuts.size(); ++q) {
    const std::int32_t begin = writer.num_segments();
    writer.run(cuts[q], cuts[q + 1]);
    schedule.queues[q] = {begin, writer.num_segments()};
  }
  schedule.segments.set_size(writer.num_segments());
  schedule.num_items = work.num_items;
  schedule.num_slots = work.num_slots * schedule.num_heads;
}

}  // namespace trencadis::planner
