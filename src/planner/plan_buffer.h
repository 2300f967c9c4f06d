// The bytes of a plan: one block, written in place and reused from step to step.
//
//   header | queues | row blocks | items | segments | merges
//
// Each section begins at a multiple of 16; the few bytes between two are zero, so that equal plans
// are equal bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "contract/plan.h"
#include "contract/units.h"

namespace trencadis::planner {

class PlanBuffer {
 public:
  PlanBuffer();

  /// Begins a plan. Room for `num_row_blocks` row blocks and as many items as reserve_items says.
  void start(std::int32_t num_queues, std::int32_t num_row_blocks);
  /// Before the first item is written; row blocks stay. Throws std::bad_alloc.
  void reserve_items(std::int64_t count);

  contract::WorkQueue* queues() { return at<contract::WorkQueue>(header().queues_offset); }
  contract::RowBlock* row_blocks() { return at<contract::RowBlock>(header().row_blocks_offset); }
  contract::WorkItem* items() { return at<contract::WorkItem>(header().items_offset); }

  /// Appends segments and merges behind the items and completes the header but for slots and
  /// classes.
  void finish(std::int32_t num_items, std::span<const contract::WorkSegment> segments,
              std::span<const contract::MergeGroup> merges);

  contract::PlanHeader& header() { return *reinterpret_cast<contract::PlanHeader*>(bytes_.get()); }
  contract::PlanView view() const {
    return {reinterpret_cast<const contract::PlanHeader*>(bytes_.get())};
  }
  std::span<const std::byte> bytes() const {
    return {bytes_.get(), static_cast<std::size_t>(view().header->bytes)};
  }

  /// Bytes of a plan with these counts.
  static std::int64_t bytes_for(std::int64_t queues, std::int64_t row_blocks, std::int64_t items,
                                std::int64_t segments, std::int64_t merges);

 private:
  template <class T>
  T* at(std::int64_t offset) {
    return reinterpret_cast<T*>(bytes_.get() + offset);
  }
  void reserve(std::int64_t bytes, std::int64_t keep);

  std::unique_ptr<std::byte[]> bytes_;
  std::int64_t capacity_ = 0;
};

}  // namespace trencadis::planner
