// The even cut: all work on one line, cut into equal shares.
//
// KV heads repeat the same items, so the line is one head's items, H_kv times over. Cut into
// #queues shares of equal cost, at the granularity of a KV tile, it gives each queue a run of whole
// items, which are shared by all heads and planned once, and at most two pieces of items, where a
// cut falls inside one. Hence
//
//   - at most #queues - 1 cuts fall inside an item; k cuts inside one item leave k + 1 <= 2 k
//     pieces, so at most 2 (#queues - 1) partial slots, without a search for a chunk size;
//   - the time to plan is linear in the row blocks, plus a binary search a queue;
//   - pieces of an item are neighbours on the line: its slots are consecutive and in KV order.
#pragma once

#include "planner/schedule.h"

namespace trencadis::planner {

class EvenCut {
 public:
  /// Cuts inside items where that pays, adding at most two items a queue behind `work.items`. A
  /// piece pays if its tiles cost no less than the cut does (CostModel::split); a cut that would
  /// leave less moves to the nearer end of the item. `work.items` holds whole items.
  ///
  /// Items of equal cost, no more of them than queues, are cut into equal pieces, one a queue,
  /// where that ends no later.
  ///
  /// With s = max(total / #queues, largest item of one tile) no queue exceeds s by more than two
  /// splits, an item overhead and one tile.
  void cut_evenly(const HeadWork& work, const TilePolicy& tiles, const CostModel& cost,
                  Schedule& schedule);

  /// Cuts between items only: no queue exceeds total / #queues by more than the largest item.
  void cut_between_items(const HeadWork& work, Schedule& schedule);

 private:
  /// A point of the line of all heads: before item `item` of head `head`, or, where kv > 0, inside
  /// it, before storage token `kv` (no cut inside an item is at its token 0).
  struct Point {
    std::int32_t head;
    std::int32_t item;
    std::int32_t kv;

    bool inside() const { return kv > 0; }
  };
  /// A place on the line where a cut is wanted.
  struct Place {
    Nanoseconds at;  // cost before it, on the line of its head
    std::int32_t head;
    std::int32_t item;  // that holds it
  };
  class Writer;

  std::int32_t mark_places(const HeadWork& work, const Schedule& schedule, Nanoseconds start,
                           Nanoseconds step);
  std::int32_t mark_pieces(const HeadWork& work, const Schedule& schedule, Nanoseconds item,
                           std::int32_t pieces);
  static void find_items(const HeadWork& work, std::int32_t count, Place* places);
  template <class Locate>
  void place_cuts(const HeadWork& work, const Schedule& schedule, std::int32_t inner,
                  Locate locate);
  void merge_pieces(std::int32_t num_pieces, Schedule& schedule) const;

  Reused<Place> places_;  // [num_queues], and a few more
  Reused<Point> cuts_;    // [num_queues + 1]
};

}  // namespace trencadis::planner
