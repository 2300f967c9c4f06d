#include "planner/even_cut.h"

#include <algorithm>
#include <bit>

namespace trencadis::planner {
namespace {

using contract::MergeGroup;
using contract::WorkItem;
using contract::WorkSegment;

constexpr std::int32_t kSideBySide = 4;

/// Into how many pieces to cut each (item, head) where all cost the same and there is a queue for
/// each, or 0 where a cut at every `step` of the line ends earlier: that uses every queue, but most
/// of them begin inside an item and go on to the next, and pay for two.
std::int32_t equal_pieces(const HeadWork& work, const Schedule& schedule, Nanoseconds item,
                          Nanoseconds step, Nanoseconds tile) {
  const std::int64_t pairs = std::int64_t{work.num_items} * schedule.num_heads;
  const Nanoseconds cost = work.cost(0);
  if (pairs > schedule.num_queues) return 0;
  for (std::int32_t i = 1; i <= work.num_items; ++i)
    if (work.line[i] != i * cost) return 0;
  // Of a tile at least.
  const auto pieces = static_cast<std::int32_t>(
      std::clamp<std::int64_t>((cost - item) / tile, 1, schedule.num_queues / pairs));
  // Either way a queue pays one overhead beside its tiles.
  return (cost - item) / pieces <= step ? pieces : 0;
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

/// The places start + step, start + 2 step, ... of the line, at most one a queue. Behind them lie
/// kSideBySide - 1 more, for find_items to read and write.
std::int32_t EvenCut::mark_places(const HeadWork& work, const Schedule& schedule, Nanoseconds start,
                                  Nanoseconds step) {
  const Nanoseconds head_cost = work.total();
  Place* places = places_.room(schedule.num_queues + kSideBySide);
  std::int32_t count = 0;
  std::int32_t head = 0;
  Nanoseconds at = start;  // on the line of the head
  for (std::int32_t q = 0; q < schedule.num_queues; ++q) {
    at += step;
    while (at >= head_cost && head < schedule.num_heads) {
      at -= head_cost;
      ++head;
    }
    if (head == schedule.num_heads) break;
    places[count++] = {at, head, 0};
  }
  std::fill_n(places + count, kSideBySide - 1, Place{0, 0, 0});
  return count;
}

/// Equal pieces of items of equal cost: `pieces` of each (item, head), one a queue.
std::int32_t EvenCut::mark_pieces(const HeadWork& work, const Schedule& schedule, Nanoseconds item,
                                  std::int32_t pieces) {
  const Nanoseconds cost = work.cost(0);
  Place* places = places_.room(schedule.num_queues + kSideBySide);
  std::int32_t count = 0;
  for (std::int32_t head = 0; head < schedule.num_heads; ++head) {
    for (std::int32_t i = 0; i < work.num_items; ++i) {
      if (count > 0) places[count - 1] = {i * cost, head, 0};  // the end of the item before
      for (std::int32_t p = 1; p <= pieces; ++p)
        places[count++] = {i * cost + item + (cost - item) * p / pieces, head, 0};
    }
  }
  --count;  // the end of the line is no cut
  std::fill_n(places + count, kSideBySide - 1, Place{0, 0, 0});
  return count;
}

/// The item that holds each place: line[item] <= at < line[item + 1]. Several searches side by side
/// and without a branch, since each of them waits for its own loads only.
void EvenCut::find_items(const HeadWork& work, std::int32_t count, Place* places) {
  for (Place* place = places; place < places + count; place += kSideBySide) {
    const Nanoseconds* first[kSideBySide] = {work.line, work.line, work.line, work.line};
    for (auto left = static_cast<std::uint32_t>(work.num_items); left > 1;) {
      const std::uint32_t half = left >> 1;
      for (int k = 0; k < kSideBySide; ++k)
        first[k] = first[k][half] <= place[k].at ? first[k] + half : first[k];
      left -= half;
    }
    for (int k = 0; k < kSideBySide; ++k)
      place[k].item = static_cast<std::int32_t>(first[k] - work.line);
  }
}

/// Cuts where `locate` moves the first `inner` places to, and at both ends of the line.
template <class Locate>
void EvenCut::place_cuts(const HeadWork& work, const Schedule& schedule, std::int32_t inner,
                         Locate locate) {
  Place* places = places_.room(schedule.num_queues + kSideBySide);
  find_items(work, inner, places);
  const std::int32_t count = schedule.num_queues + 1;
  Point* cuts = cuts_.room(count);
  cuts[0] = {0, 0, 0};
  std::transform(places, places + inner, cuts + 1, locate);
  std::fill(cuts + 1 + inner, cuts + count, Point{schedule.num_heads, 0, 0});
  cuts_.set_size(count);
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
  const std::int32_t pieces = equal_pieces(work, schedule, cost.item, step, slowest_tile);
  const std::int32_t inner = pieces > 0 ? mark_pieces(work, schedule, cost.item, pieces)
                                        : mark_places(work, schedule, cost.item, step);
  std::uint32_t split_classes = 0;  // bit c: an item of class c is split
  place_cuts(work, schedule, inner, [&](Place place) -> Point {
    const auto [at, head, item] = place;
    const std::uint8_t tile_class = work.blocks[item].tile_class;
    const Nanoseconds tile_cost = cost.tile[tile_class];
    // The nearest tile; the item's own overhead lies before its first.
    const Nanoseconds before = std::max<Nanoseconds>(0, at - work.line[item] - cost.item);
    const Nanoseconds tile = (before + tile_cost / 2) / tile_cost;
    const Nanoseconds cut = tile * tile_cost;
    const Nanoseconds after = work.cost(item) - cost.item - cut;
    const bool pays = std::min(cut, after) >= cost.split[tile_class];
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
  const std::int32_t inner = mark_places(work, schedule, 0, share);
  place_cuts(work, schedule, inner, [&](Place place) -> Point {
    const auto [at, head, item] = place;
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
