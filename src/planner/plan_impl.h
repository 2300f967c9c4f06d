// What a Plan owns.
#pragma once

#include <trencadis/plan.h>

#include <memory>

#include "planner/plan_buffer.h"
#include "planner/problem.h"
#include "planner/work_list.h"

namespace trencadis::planner {

/// What a planner was built for; shared with the plans that it makes, so that they can explain
/// themselves.
struct PlannerConfig {
  AttentionSpec spec;
  Heads heads;
  DeviceLimits device;
  PlanOptions options;
  WorkRules rules;
};

}  // namespace trencadis::planner

namespace trencadis {

/// The engine may read everything here while the plan is in force. `problem` borrows the arrays of
/// the PlanInput; stats() and explain() need the rest only.
struct Plan::Impl {
  std::shared_ptr<const planner::PlannerConfig> config;  // null before the first plan
  planner::Problem problem;
  planner::PlanBuffer buffer;
  Scheduler scheduler = Scheduler::even_cut;  // the one that was used
  std::int64_t num_requests = 0;
};

}  // namespace trencadis
