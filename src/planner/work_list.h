// The first half of a plan: row blocks, and of each the KV range that its rows can see at all.
#pragma once

#include <trencadis/plan.h>

#include <cstdint>

#include "contract/plan.h"
#include "planner/cost_model.h"
#include "planner/problem.h"
#include "planner/tile_policy.h"

namespace trencadis::planner {

/// What row blocks are made from, fixed for a planner.
struct WorkRules {
  int group = 1;      // g: fused rows a query token
  MaskBounds bounds;  // of the variant
  TilePolicy tiles;
  CostModel cost;
};

/// Where they are written. One KV head; every head repeats them.
struct WorkList {
  contract::RowBlock* blocks;  // [n]
  contract::WorkItem*
      items;          // [n] item i: row block i with its whole visible range, written through
  Nanoseconds* line;  // [n + 1] line[i]: cost of the items before item i
};

/// How many row blocks a problem has. Throws Error(out_of_capacity) where they cannot be counted in
/// 31 bits.
std::int32_t count_row_blocks(const Problem& problem, const WorkRules& rules);

/// Writes the list in the order of the block rows. A range is exact: it begins with the first key
/// that a row of the block can see and ends after the last, in storage tokens. Row blocks that see
/// nothing come last and have no item, so that padding neither costs anything nor moves a cut.
/// Returns the number of items. Throws what kv_bounds throws.
std::int32_t build_work_list(const Problem& problem, const WorkRules& rules, const PlanInput& input,
                             WorkList list);

}  // namespace trencadis::planner
