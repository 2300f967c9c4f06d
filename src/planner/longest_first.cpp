#include "planner/longest_first.h"

#include <algorithm>
#include <numeric>

namespace trencadis::planner {

void LongestFirst::place(const HeadWork& work, Schedule& schedule) {
  const auto num_items = static_cast<std::size_t>(work.num_items);
  const auto num_heads = static_cast<std::size_t>(schedule.num_heads);
  const auto num_queues = static_cast<std::size_t>(schedule.num_queues);
  order_.resize(num_items);
  std::iota(order_.begin(), order_.end(), 0);
  std::sort(order_.begin(), order_.end(), [&](std::int32_t a, std::int32_t b) {
    const Nanoseconds cost_a = work.cost(a), cost_b = work.cost(b);
    return cost_a != cost_b ? cost_a > cost_b : a < b;
  });

  heap_.resize(num_queues);
  for (std::size_t q = 0; q < num_queues; ++q) heap_[q] = {0, static_cast<std::int32_t>(q)};
  placed_.resize(num_items * num_heads);
  next_.assign(num_queues, 0);
  auto placed = placed_.begin();
  for (const std::int32_t item : order_) {
    for (std::size_t head = 0; head < num_heads; ++head) {
      const std::int32_t queue = heap_.front().queue;
      *placed++ = queue;
      ++next_[static_cast<std::size_t>(queue)];
      add_to_least(work.cost(item));
    }
  }

  // A counting sort by queue keeps the order of placement, longest first, within each.
  const auto num_pairs = static_cast<std::int64_t>(placed_.size());
  contract::WorkSegment* segments = schedule.segments.room(num_pairs);
  schedule.segments.set_size(num_pairs);
  std::int32_t begin = 0;
  for (std::size_t q = 0; q < num_queues; ++q) {
    const std::int32_t count = next_[q];
    schedule.queues[q] = {begin, begin + count};
    next_[q] = begin;
    begin += count;
  }
  placed = placed_.begin();
  for (const std::int32_t item : order_) {
    for (std::int32_t head = 0; head < schedule.num_heads; ++head) {
      segments[next_[static_cast<std::size_t>(*placed++)]++] = {head, item, item + 1,
                                                                head * work.num_slots};
    }
  }
  schedule.num_items = work.num_items;
  schedule.num_slots = work.num_slots * schedule.num_heads;
}

/// Adds to the front and lets it sink: half the work of a pop and a push.
void LongestFirst::add_to_least(Nanoseconds cost) {
  const auto less = [](const Load& a, const Load& b) {
    return a.cost != b.cost ? a.cost < b.cost : a.queue < b.queue;
  };
  Load moving = heap_.front();
  moving.cost += cost;
  std::size_t hole = 0;
  for (std::size_t child = 1; child < heap_.size(); child = 2 * hole + 1) {
    if (child + 1 < heap_.size() && less(heap_[child + 1], heap_[child])) ++child;
    if (!less(heap_[child], moving)) break;
    heap_[hole] = heap_[child];
    hole = child;
  }
  heap_[hole] = moving;
}

}  // namespace trencadis::planner
