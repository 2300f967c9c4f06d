#include "planner/plan_buffer.h"

#include <algorithm>
#include <cstring>

namespace trencadis::planner {
namespace {

using contract::MergeGroup;
using contract::PlanHeader;
using contract::RowBlock;
using contract::WorkItem;
using contract::WorkQueue;
using contract::WorkSegment;

template <class T>
constexpr std::int64_t section(std::int64_t count) {
  return contract::ceil_div<std::int64_t>(count * static_cast<std::int64_t>(sizeof(T)), 16) * 16;
}

static_assert(sizeof(PlanHeader) % 16 == 0, "the first section begins behind the header");

}  // namespace

std::int64_t PlanBuffer::bytes_for(std::int64_t queues, std::int64_t row_blocks, std::int64_t items,
                                   std::int64_t segments, std::int64_t merges) {
  return static_cast<std::int64_t>(sizeof(PlanHeader)) + section<WorkQueue>(queues) +
         section<RowBlock>(row_blocks) + section<WorkItem>(items) + section<WorkSegment>(segments) +
         section<MergeGroup>(merges);
}

PlanBuffer::PlanBuffer() {
  start(0, 0);
  finish(0, {}, {});
}

void PlanBuffer::start(std::int32_t num_queues, std::int32_t num_row_blocks) {
  reserve(bytes_for(num_queues, num_row_blocks, 0, 0, 0), 0);
  PlanHeader& h = header();
  h = PlanHeader{};
  h.num_queues = num_queues;
  h.num_row_blocks = num_row_blocks;
  h.queues_offset = sizeof(PlanHeader);
  h.row_blocks_offset = h.queues_offset + section<WorkQueue>(num_queues);
  h.items_offset = h.row_blocks_offset + section<RowBlock>(num_row_blocks);
  if (num_queues % 2 != 0) queues()[num_queues] = WorkQueue{};  // the gap before the row blocks
}

void PlanBuffer::reserve_items(std::int64_t count) {
  const std::int64_t keep = header().items_offset;
  reserve(keep + section<WorkItem>(count), keep);
}

void PlanBuffer::finish(std::int32_t num_items, std::span<const WorkSegment> segments,
                        std::span<const MergeGroup> merges) {
  const std::int64_t keep = header().items_offset + section<WorkItem>(num_items);
  const auto segment_bytes = static_cast<std::int64_t>(segments.size_bytes());
  const auto merge_bytes = static_cast<std::int64_t>(merges.size_bytes());
  reserve(keep + segment_bytes + merge_bytes, keep);
  PlanHeader& h = header();
  h.num_items = num_items;
  h.num_segments = static_cast<std::int32_t>(segments.size());
  h.num_merges = static_cast<std::int32_t>(merges.size());
  h.segments_offset = keep;
  h.merges_offset = keep + segment_bytes;
  h.bytes = keep + segment_bytes + merge_bytes;
  if (!segments.empty()) {
    std::memcpy(at<WorkSegment>(h.segments_offset), segments.data(), segments.size_bytes());
  }
  if (!merges.empty()) {
    std::memcpy(at<MergeGroup>(h.merges_offset), merges.data(), merges.size_bytes());
  }
}

void PlanBuffer::reserve(std::int64_t bytes, std::int64_t keep) {
  if (bytes <= capacity_) return;
  const std::int64_t capacity = std::max(bytes, capacity_ + capacity_ / 2);
  auto grown = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(capacity));
  if (keep > 0) std::memcpy(grown.get(), bytes_.get(), static_cast<std::size_t>(keep));
  bytes_ = std::move(grown);
  capacity_ = capacity;
}

}  // namespace trencadis::planner
