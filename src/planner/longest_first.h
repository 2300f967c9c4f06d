// The placement of Algorithm 1 of the paper: longest item first, onto the least-loaded queue.
#pragma once

#include <vector>

#include "planner/schedule.h"

namespace trencadis::planner {

/// Places every (item, head). Ties go to the earlier item and the lower queue, so that the schedule
/// is a function of its input. No queue exceeds (total / #queues) + its own shortest item.
/// O(n log n) in items, O(n H log #queues) in pairs.
class LongestFirst {
 public:
  void place(const HeadWork& work, Schedule& schedule);

 private:
  struct Load {
    Nanoseconds cost;
    std::int32_t queue;
  };
  void add_to_least(Nanoseconds cost);

  // Scratch that keeps its capacity.
  std::vector<std::int32_t> order_;   // items, longest first
  std::vector<Load> heap_;            // least load in front
  std::vector<std::int32_t> placed_;  // [items * heads] queue of each pair, in order
  std::vector<std::int32_t> next_;    // next segment of each queue
};

}  // namespace trencadis::planner
