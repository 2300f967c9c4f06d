#include "backends/cpu/work_units.h"

#include <algorithm>

#include "contract/units.h"

namespace trencadis::cpu {
namespace {

/// No segment of the plan has this head of this item.
constexpr std::int32_t kAbsent = -2;

const contract::RowBlock& block_of(const contract::PlanView& plan, std::int32_t item) {
  return plan.row_blocks()[plan.items()[item].row_block];
}

}  // namespace

void WorkUnits::assign(const contract::PlanView& plan, const Launch& launch, int num_threads) {
  num_heads_ = launch.params.num_kv_heads;
  units_.clear();
  fill_slots(plan);
  group_heads(plan, launch, num_threads);
}

/// Notes who writes where; tiles that are packed are units by themselves, in queue order.
void WorkUnits::fill_slots(const contract::PlanView& plan) {
  const contract::PlanHeader& header = *plan.header;
  slots_.assign(static_cast<std::size_t>(header.num_items) * static_cast<std::size_t>(num_heads_),
                kAbsent);
  stream_tokens_ = 0;
  for (int s = 0; s < header.num_segments; ++s) {
    const contract::WorkSegment& segment = plan.segments()[s];
    for (std::int32_t i = segment.item_begin; i < segment.item_end; ++i) {
      const contract::WorkItem& item = plan.items()[i];
      slots_[static_cast<std::size_t>(i) * static_cast<std::size_t>(num_heads_) +
             static_cast<std::size_t>(segment.kv_head)] = item.slot == contract::kWriteThrough
                                                              ? contract::kWriteThrough
                                                              : segment.slot_base + item.slot;
      if (block_of(plan, i).row_count >= kPackedRows)
        units_.push_back({i, segment.kv_head, 1});
      else
        stream_tokens_ += item.kv_end - item.kv_begin;
    }
  }
}

void WorkUnits::group_heads(const contract::PlanView& plan, const Launch& launch, int num_threads) {
  // No unit is more than a thread's share. Smaller ones would balance better and read worse: at
  // batch 1 to 4, halves and quarters of a share cost 20 to 70 % more (lab/0002).
  const std::int64_t share = stream_tokens_ / num_threads;
  const auto first = static_cast<std::ptrdiff_t>(units_.size());
  for (std::int32_t i = 0; i < plan.header->num_items; ++i) {
    const int rows = block_of(plan, i).row_count;
    if (rows >= kPackedRows) continue;
    const contract::WorkItem& item = plan.items()[i];
    const std::int64_t tokens = std::max(1, item.kv_end - item.kv_begin);
    const auto most = static_cast<std::int32_t>(
        std::clamp<std::int64_t>(share / tokens, 1, MainLoop::max_heads(launch, rows)));
    const std::int32_t* slots = slots_.data() + std::int64_t{i} * num_heads_;
    for (std::int32_t head = 0; head < num_heads_; ++head) {
      if (slots[head] == kAbsent) continue;
      std::int32_t end = head + 1;
      while (end < num_heads_ && end - head < most && slots[end] != kAbsent) ++end;
      units_.push_back({i, head, end - head});
      head = end - 1;
    }
  }
  const auto cost = [&plan](const WorkUnit& unit) {
    const contract::WorkItem& item = plan.items()[unit.item];
    return std::int64_t{item.kv_end - item.kv_begin} * unit.head_count;
  };
  std::sort(units_.begin() + first, units_.end(),
            [&](const WorkUnit& a, const WorkUnit& b) { return cost(a) > cost(b); });
}

}  // namespace trencadis::cpu
