// What schedulers read and write.
#pragma once

#include <cstdint>
#include <vector>

#include "contract/plan.h"
#include "contract/units.h"
#include "planner/cost_model.h"
#include "planner/tile_policy.h"

namespace trencadis::planner {

/// The work of one KV head as a list of items; every head repeats it.
struct HeadWork {
  const contract::RowBlock* blocks = nullptr;
  contract::WorkItem* items = nullptr;  // [num_items], with room for two more a queue
  const Nanoseconds* line = nullptr;    // [num_items + 1] cost of the items before each
  std::int32_t num_items = 0;
  std::int32_t num_slots = 0;  // partial slots of items that are split already

  Nanoseconds cost(std::int32_t item) const { return line[item + 1] - line[item]; }
  Nanoseconds total() const { return line[num_items]; }
};

/// Who executes what, in memory that is reused from step to step.
struct Schedule {
  contract::WorkQueue* queues = nullptr;  // [num_queues], in the plan
  std::int32_t num_queues = 0;
  std::int32_t num_heads = 0;
  std::vector<contract::WorkSegment> segments;
  std::vector<contract::MergeGroup> merges;
  std::int32_t num_items = 0;
  std::int32_t num_slots = 0;
  std::int32_t slot_rows = 0;
};

}  // namespace trencadis::planner
