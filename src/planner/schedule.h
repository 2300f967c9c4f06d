// What schedulers read and write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "contract/plan.h"
#include "contract/units.h"
#include "planner/cost_model.h"
#include "planner/tile_policy.h"

namespace trencadis::planner {

/// An array whose memory outlives its contents: a planner fills it anew each step.
template <class T>
class Reused {
 public:
  /// Memory for `count` elements, contents undefined.
  T* room(std::int64_t count) {
    if (count > capacity_) {
      capacity_ = count + count / 2;
      data_ = std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(capacity_));
    }
    return data_.get();
  }
  void set_size(std::int64_t count) { size_ = count; }
  std::span<const T> values() const { return {data_.get(), static_cast<std::size_t>(size_)}; }

 private:
  std::unique_ptr<T[]> data_;
  std::int64_t capacity_ = 0;
  std::int64_t size_ = 0;
};

/// The work of one KV head as a list of items; every head repeats it.
struct HeadWork {
  const contract::RowBlock* blocks = nullptr;
  contract::WorkItem* items = nullptr;  // [num_items]
  const Nanoseconds* line = nullptr;    // [num_items + 1] cost of the items before each
  std::int32_t num_items = 0;
  std::int32_t num_slots = 0;  // partial slots of items that are split already

  Nanoseconds cost(std::int32_t item) const { return line[item + 1] - line[item]; }
  Nanoseconds total() const { return line[num_items]; }
};

/// Who executes what.
struct Schedule {
  std::int32_t num_heads = 0;
  std::int32_t num_queues = 0;
  contract::WorkQueue* queues = nullptr;  // [num_queues], in the plan
  Reused<contract::WorkSegment> segments;
  Reused<contract::MergeGroup> merges;
  std::int32_t num_items = 0;
  std::int32_t num_slots = 0;
  std::int32_t slot_rows = 0;  // rows of a slot: the largest T_q that is split
};

}  // namespace trencadis::planner
