#include "planner/l2_windows.h"

#include <algorithm>
#include <bit>

namespace trencadis::planner {

/// What a request reads is from the first key that one of its items sees to the last.
void L2Windows::rank(const HeadWork& work, std::int64_t window_tokens) {
  order_.resize(static_cast<std::size_t>(work.num_items));
  const auto costliest_first = [](const Ranked& a, const Ranked& b) {
    return a.cost != b.cost ? a.cost > b.cost : a.item < b.item;
  };
  auto window = order_.begin();
  std::int64_t tokens = 0;
  for (std::int32_t begin = 0; begin < work.num_items;) {
    const auto request_of = [&](std::int32_t i) {
      return work.blocks[work.items[i].row_block].request;
    };
    const std::int32_t request = request_of(begin);
    std::int32_t first = work.items[begin].kv_begin, last = work.items[begin].kv_end;
    std::int32_t end = begin;
    for (; end < work.num_items && request_of(end) == request; ++end) {
      order_[static_cast<std::size_t>(end)] = {work.cost(end), end};
      first = std::min(first, work.items[end].kv_begin);
      last = std::max(last, work.items[end].kv_end);
    }
    if (tokens > 0 && tokens + (last - first) > window_tokens) {
      std::sort(window, order_.begin() + begin, costliest_first);
      window = order_.begin() + begin;
      tokens = 0;
    }
    tokens += last - first;
    begin = end;
  }
  std::sort(window, order_.end(), costliest_first);
}

void L2Windows::append(std::int64_t bucket, std::int32_t queue) {
  Bucket& at = buckets_[static_cast<std::size_t>(bucket & (kBuckets - 1))];
  queues_[static_cast<std::size_t>(queue)].next = -1;
  if (at.first < 0)
    at.first = queue;
  else
    queues_[static_cast<std::size_t>(at.last)].next = queue;
  at.last = queue;
}

Nanoseconds L2Windows::deal(const HeadWork& work, std::int32_t num_heads, std::int32_t num_queues,
                            std::int64_t window_tokens) {
  rank(work, window_tokens);
  Nanoseconds longest_item = 0;
  for (const Ranked& next : order_) longest_item = std::max(longest_item, next.cost);
  // Buckets are 2^shift wide: the longest item spans kResolution to 2 kResolution of them.
  const auto width = static_cast<std::uint64_t>(longest_item / kResolution);
  const int shift = width == 0 ? 0 : 63 - std::countl_zero(width);

  buckets_.fill({-1, -1});
  queues_.assign(static_cast<std::size_t>(num_queues), {0, -1, 0, -1, -1});
  for (std::int32_t q = 0; q < num_queues; ++q) append(0, q);
  dealt_.resize(order_.size() * static_cast<std::size_t>(num_heads));
  auto dealt = dealt_.begin();
  std::int64_t now = 0;
  Nanoseconds longest = 0;
  for (std::int32_t head = 0; head < num_heads; ++head) {
    for (const auto [cost, item] : order_) {
      while (buckets_[static_cast<std::size_t>(now & (kBuckets - 1))].first < 0) ++now;
      Bucket& bucket = buckets_[static_cast<std::size_t>(now & (kBuckets - 1))];
      const std::int32_t number = bucket.first;
      Queue& queue = queues_[static_cast<std::size_t>(number)];
      bucket.first = queue.next;
      const bool goes_on = queue.head == head && queue.item_end == item;
      queue.num_segments += !goes_on;
      queue.head = head;
      queue.item_end = item + 1;
      queue.free_at += cost;
      longest = std::max(longest, queue.free_at);
      *dealt++ = goes_on ? ~number : number;
      append(queue.free_at >> shift, number);
    }
  }
  return longest;
}

void L2Windows::write(const HeadWork& work, Schedule& schedule) {
  std::int64_t count = 0;
  for (const Queue& queue : queues_) count += queue.num_segments;
  contract::WorkSegment* const segments = schedule.segments.room(count);
  schedule.segments.set_size(count);
  // A counting sort by queue keeps the order in which they were dealt within each.
  std::int32_t begin = 0;
  for (std::size_t q = 0; q < queues_.size(); ++q) {
    schedule.queues[q] = {begin, begin + queues_[q].num_segments};
    queues_[q].next = begin;
    begin += queues_[q].num_segments;
  }
  auto dealt = dealt_.begin();
  for (std::int32_t head = 0; head < schedule.num_heads; ++head) {
    for (const Ranked& ranked : order_) {
      const std::int32_t queue = *dealt++;
      if (queue < 0)
        ++segments[queues_[static_cast<std::size_t>(~queue)].next - 1].item_end;
      else
        segments[queues_[static_cast<std::size_t>(queue)].next++] = {
            head, ranked.item, ranked.item + 1, head * work.num_slots};
    }
  }
  schedule.num_items = work.num_items;
  schedule.num_slots = work.num_slots * schedule.num_heads;
}

}  // namespace trencadis::planner
