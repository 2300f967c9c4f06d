// What a thread takes from a plan at a time.
//
// A queue of the plan holds work items of one KV head after another, as suits a machine whose
// queues have their own caches. The CPU's threads share memory, and a page holds the rows of all
// heads side by side: read head by head, a bf16 decode reaches half of the bandwidth that it
// reaches when the heads of an item are read together (lab/0002). So the items of short query tiles
// are regrouped, all their heads in one unit, as long as a unit stays a small share of the work.
// What is computed, split and merged is the plan's; a result has the same bits in any grouping and
// on any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "contract/plan.h"
#include "cpu/main_loop.h"

namespace trencadis::cpu {

/// KV heads [first_head, first_head + head_count) of one item.
struct WorkUnit {
  std::int32_t item;
  std::int32_t first_head;
  std::int32_t head_count;
};

class WorkUnits {
 public:
  /// Allocates only where a plan is larger than every one before it.
  void assign(const contract::PlanView& plan, const Launch& launch, int num_threads);

  /// In the order in which they are to be taken: prefill tiles in the order of the queues, then the
  /// rest, longest first.
  std::span<const WorkUnit> units() const { return units_; }
  HeadRange heads(const WorkUnit& unit) const {
    return {unit.first_head, unit.head_count,
            slots_.data() + std::int64_t{unit.item} * num_heads_ + unit.first_head};
  }

 private:
  void fill_slots(const contract::PlanView& plan);
  void group_heads(const contract::PlanView& plan, const Launch& launch, int num_threads);

  int num_heads_ = 0;
  std::int64_t stream_tokens_ = 0;   // of the items that stream, over all heads
  std::vector<std::int32_t> slots_;  // [items, heads]: slot, kWriteThrough or kAbsent
  std::vector<WorkUnit> units_;
};

}  // namespace trencadis::cpu
