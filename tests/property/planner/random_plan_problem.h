// Random inputs of plan(): every storage form, mask, mode and device that the planner knows, small
// enough for a checker that looks at each (row, key) by itself.
#pragma once

#include <trencadis/plan.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace trencadis::testing {

struct PlanProblem {
  AttentionSpec spec;
  Heads heads;
  DeviceLimits device;
  PlanOptions options;
  std::vector<std::int32_t> qo_indptr{0}, kv_lens;
  BlockSparse matrix;
  std::vector<std::int64_t>
      prefixes;  // keys below prefixes[b] are visible to all rows; empty: none

  /// Borrows from this problem.
  PlanInput input() const;
  /// The same numbers as int64; the arrays live in `wide`.
  struct Wide {
    std::vector<std::int64_t> qo_indptr, kv_lens, row_indptr, row_requests;
    std::vector<std::int64_t> indptr, indices, positions, row_lens;
  };
  PlanInput wide_input(Wide& wide) const;
  std::string describe() const;
};

PlanProblem random_plan_problem(std::uint64_t seed);

}  // namespace trencadis::testing
