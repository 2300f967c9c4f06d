// What makes a plan right, checked from its bytes without the planner's help: a naive look at each
// (row, key). Shared by the laws and the fuzzer.
#pragma once

#include <string>

#include "property/planner/random_plan_problem.h"

namespace trencadis::testing {

/// "" or the first law that `plan` breaks:
///   - queues share out all segments, segments name items, items name row blocks, all in bounds;
///   - row blocks hold every query row of every block row exactly once, of one request each;
///   - for each (row block, KV head) the items cover exactly the storage tokens from the first to
///     the last that a row can see, none twice; one that sees nothing has one empty item;
///   - an unsplit one is written through; the slots of a split one are consecutive, in KV order,
///   and
///     its merge group lists them; every slot has one writer;
///   - a slot has room for the rows of every block that is split.
std::string check_plan(const PlanProblem& problem, const Plan& plan);

}  // namespace trencadis::testing
