// Whole items in an order that lets CTAs share K and V in L2: head by head, and within a head in
// windows of requests whose K and V stay there together.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "planner/schedule.h"

namespace trencadis::planner {

/// Deals every (item, head) in turn to the queue that is free first. What runs at one time is then
/// a run of that order: row blocks of a few requests and of one head, or of two where one ends.
/// Within a window the costliest item comes first, ties by index, so that queues fall and rise in
/// turn, and end on the smallest items of the last one.
///
/// Queues are told apart to 1/kResolution of the longest item: no queue exceeds total / #queues by
/// more than the longest item and that. The schedule is a function of its input.
/// O(n log n) in the items of a head, and O(1) in pairs: the time at which the next queue is free
/// never goes back, so that a ring of buckets holds them.
class L2Windows {
 public:
  static constexpr Nanoseconds kResolution = 64;

  /// A window is a run of requests that read at most `window_tokens` of K and V together, or one
  /// that reads more by itself. Returns the longest queue; nothing is written yet.
  Nanoseconds deal(const HeadWork& work, std::int32_t num_heads, std::int32_t num_queues,
                   std::int64_t window_tokens);

  /// The schedule of the last deal of `work`. A segment for each pair, or for several of a queue
  /// that are consecutive items of a head.
  void write(const HeadWork& work, Schedule& schedule);

 private:
  struct Ranked {
    Nanoseconds cost;
    std::int32_t item;
  };
  struct Queue {
    Nanoseconds free_at;
    std::int32_t next;  // in its bucket
    std::int32_t num_segments;
    std::int32_t head, item_end;  // what it was dealt last
  };
  struct Bucket {
    std::int32_t first, last;  // queues, in the order in which they came; first < 0: none
  };
  static constexpr int kBuckets = 256;  // an item reaches no further ahead than 2 kResolution + 1

  void rank(const HeadWork& work, std::int64_t window_tokens);
  void append(std::int64_t bucket, std::int32_t queue);

  // Scratch that keeps its capacity.
  std::vector<Ranked> order_;  // of the items of each head
  std::vector<Queue> queues_;
  std::array<Bucket, kBuckets> buckets_{};
  std::vector<std::int32_t> dealt_;  // [heads * items] queue of each pair; ~queue: goes on there
};

}  // namespace trencadis::planner
