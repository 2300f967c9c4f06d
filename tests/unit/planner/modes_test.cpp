#include <gtest/gtest.h>

#include <map>
#include <set>

#include "planner/planner.h"
#include "planner/workspace.h"
#include "support/expect_error.h"
#include "unit/planner/plan_cases.h"

namespace trencadis::testing {
namespace {

/// KV ranges of a request on head 0, in order.
std::set<std::pair<std::int64_t, std::int64_t>> ranges(const Plan& plan, int request) {
  std::set<std::pair<std::int64_t, std::int64_t>> result;
  for (const PlanSpan& s : plan.timeline()) {
    if (s.request == request && s.kv_head == 0) result.insert({s.kv_begin, s.kv_end});
  }
  return result;
}

Plan plan_of(const Batch& batch, const PlanOptions& options) {
  return make_plan(causal_spec(), Heads{32, 8}, known_device("h200"), batch.input(), options);
}

TEST(SplitModes, NoneKeepsEveryRequestWhole) {
  // P2: pages [1, 200, 3, 500].
  const Batch batch({1, 1, 1, 1}, {16, 3200, 48, 8000});
  const Plan plan = plan_of(batch, {.split = SplitMode::none});
  EXPECT_EQ(plan.stats().partial_slots, 0);
  EXPECT_TRUE(plan.merges().empty());
  EXPECT_EQ(ranges(plan, 3), (std::set<std::pair<std::int64_t, std::int64_t>>{{0, 8000}}));
}

TEST(SplitModes, FixedCutsWhereTheOptionsSayRoundedToTiles) {
  const Batch batch({1}, {500});
  const Plan plan = plan_of(batch, {.split = SplitMode::fixed, .fixed_split_tokens = 150});
  EXPECT_EQ(ranges(plan, 0),
            (std::set<std::pair<std::int64_t, std::int64_t>>{{0, 192}, {192, 384}, {384, 500}}));
  EXPECT_EQ(plan.stats().partial_slots, 3 * 8);
}

TEST(SplitModes, BatchInvariantSplitsDoNotMoveWithTheBatch) {
  // D3: alone, and with 127 short ones, first or last.
  const PlanOptions options{.batch_invariant = true};
  const Plan alone = plan_of(Batch({1}, {9000}), options);
  std::vector<std::int32_t> keys(128, 20);
  keys.back() = 9000;
  const Plan last = plan_of(Batch(std::vector<std::int32_t>(128, 1), keys), options);
  std::swap(keys.front(), keys.back());
  const Plan first = plan_of(Batch(std::vector<std::int32_t>(128, 1), keys), options);
  EXPECT_EQ(ranges(alone, 0).size(), 5u);  // every 2,048
  EXPECT_EQ(ranges(alone, 0), ranges(last, 127));
  EXPECT_EQ(ranges(alone, 0), ranges(first, 0));
}

TEST(SplitModes, LongestFirstPutsTheLongestItemsInFront) {
  const Batch batch({1, 1, 1}, {64, 6400, 640});
  PlanOptions options{.split = SplitMode::none, .scheduler = Scheduler::longest_first};
  const Plan plan = make_plan(causal_spec(), Heads{4, 1}, device_of(2), batch.input(), options);
  const std::vector<PlanSpan> spans = plan.timeline();
  ASSERT_EQ(spans.size(), 3u);
  EXPECT_EQ(spans[0].request, 1);
  EXPECT_EQ(spans[1].request, 2);  // the other queue, then the short one behind it
  EXPECT_EQ(spans[2].request, 0);
  EXPECT_EQ(spans[2].queue, 1);
}

TEST(SplitModes, TheChunkBoundOfAlgorithm1CutsWhatExceedsTheMeanQueue) {
  const Batch batch({1, 1}, {64, 64 * 40});
  const Plan plan = make_plan(causal_spec(), Heads{4, 1}, device_of(4), batch.input(),
                              {.scheduler = Scheduler::longest_first});
  // 41 tiles on 4 queues: chunks of at most 11 tiles, as equal as they can be.
  EXPECT_EQ(ranges(plan, 1), (std::set<std::pair<std::int64_t, std::int64_t>>{
                                 {0, 640}, {640, 1280}, {1280, 1920}, {1920, 2560}}));
  EXPECT_EQ(ranges(plan, 0), (std::set<std::pair<std::int64_t, std::int64_t>>{{0, 64}}));
}

TEST(SplitModes, OptionsThatContradictAreRefused) {
  const Batch batch({1}, {16});
  expect_error(ErrorKind::invalid_argument, {"fixed_split_tokens is 0", "more than 0"},
               [&] { plan_of(batch, {.split = SplitMode::fixed}); });
  expect_error(ErrorKind::invalid_argument, {"fixed_split_tokens is 64", "expected 0"},
               [&] { plan_of(batch, {.fixed_split_tokens = 64}); });
}

TEST(Workspace, TheBoundNamesTheLimitThatItNeeds) {
  const planner::Planner automatic(causal_spec(), Heads{32, 8}, known_device("h200"), {});
  expect_error(ErrorKind::invalid_argument, {"limits.max_qo_tokens is 0"},
               [&] { planner::workspace_bound(automatic.config(), {}, 16); });
  const planner::Planner fixed(causal_spec(), Heads{32, 8}, known_device("h200"),
                               {.split = SplitMode::fixed, .fixed_split_tokens = 256});
  expect_error(ErrorKind::invalid_argument, {"limits.max_kv_tokens is 0"},
               [&] { planner::workspace_bound(fixed.config(), {.max_qo_tokens = 64}, 16); });
}

TEST(Workspace, TheBoundOfAutomaticSplitsDoesNotGrowWithKv) {
  const planner::Planner planner(causal_spec(), Heads{32, 8}, known_device("h200"), {});
  Limits limits{.max_batch = 256, .max_qo_tokens = 256, .max_kv_tokens = 1024};
  const std::int64_t bytes = planner::workspace_bound(planner.config(), limits, 16).total_bytes;
  limits.max_kv_tokens = 1 << 20;
  EXPECT_EQ(planner::workspace_bound(planner.config(), limits, 16).total_bytes, bytes);
  // 264 slots of 128 rows of 129 floats, and the plan.
  EXPECT_LT(bytes, 264 * 128 * 129 * 4 + 65536);
}

}  // namespace
}  // namespace trencadis::testing
