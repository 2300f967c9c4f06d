#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "planner/plan_impl.h"
#include "planner/planner.h"
#include "planner/workspace.h"
#include "unit/planner/plan_cases.h"

namespace trencadis::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr PlanOptions kWhole{.split = SplitMode::none, .scheduler = Scheduler::l2_windows};

/// Costs nothing but tiles, a microsecond each; no L2 unless given.
DeviceLimits plain_device(int queues) {
  DeviceLimits device{.name = "plain", .num_ctas = queues, .read_gbps = 1e9, .matmul_tflops = 1e9};
  device.query_tiles = 128;
  device.min_kv_tile = device.max_kv_tile = 128;
  device.item_overhead_us = 0;
  device.tile_overhead_us = 1;
  return device;
}

/// As the Hopper template's policy on an H200.
DeviceLimits hopper() {
  DeviceLimits device = known_device("h200");
  device.query_tiles = 16 | 128;
  device.min_kv_tile = device.max_kv_tile = 128;
  device.tile_memory = 0;
  return device;
}

Batch prompts(std::vector<std::int32_t> tokens) {
  return Batch(tokens, tokens);
}

Plan plan_of(const Batch& batch, const DeviceLimits& device, Heads heads,
             const PlanOptions& options = {}) {
  return make_plan(causal_spec(), heads, device, batch.input(), options);
}

/// (request, KV head, row block) of what one queue executes, or of all in the order of their start.
using Pair = std::array<std::int64_t, 3>;
std::vector<Pair> pairs_of(const Plan& plan, int queue) {
  std::vector<Pair> pairs;
  for (const PlanSpan& s : plan.timeline())
    if (s.queue == queue) pairs.push_back({s.request, s.kv_head, s.row_begin / 128});
  return pairs;
}

Scheduler scheduler_of(const Plan& plan) {
  return plan.impl().scheduler;
}

TEST(L2Windows, CostliestFirstHeadByHead) {
  // Row blocks of 1, 2 and 1, 2, 3 tiles: one window without a known L2.
  const Plan plan = plan_of(prompts({256, 384}), plain_device(1), Heads{2, 2}, kWhole);
  EXPECT_THAT(
      pairs_of(plan, 0),
      ElementsAre(Pair{1, 0, 2}, Pair{0, 0, 1}, Pair{1, 0, 1}, Pair{0, 0, 0}, Pair{1, 0, 0},  //
                  Pair{1, 1, 2}, Pair{0, 1, 1}, Pair{1, 1, 1}, Pair{0, 1, 0}, Pair{1, 1, 0}));
}

TEST(L2Windows, AWindowIsWhatHalfOfL2Holds) {
  // 512 bytes a token of one head: half of L2 holds 384 tokens, so {128, 256}, {512}, {128, 128}.
  DeviceLimits device = plain_device(1);
  device.l2_bytes = 2 * 384 * 512;
  const Plan plan = plan_of(prompts({128, 256, 512, 128, 128}), device, Heads{1, 1}, kWhole);
  EXPECT_THAT(pairs_of(plan, 0),
              ElementsAre(Pair{1, 0, 1}, Pair{0, 0, 0}, Pair{1, 0, 0},                 //
                          Pair{2, 0, 3}, Pair{2, 0, 2}, Pair{2, 0, 1}, Pair{2, 0, 0},  //
                          Pair{3, 0, 0}, Pair{4, 0, 0}));
}

TEST(L2Windows, QueuesRiseAndFallInTurn) {
  // Of 8 .. 1 tiles, four queues take 8 7 6 5 and then, the one with least first, 4 3 2 1.
  const Plan plan = plan_of(prompts({1024}), plain_device(4), Heads{1, 1}, kWhole);
  EXPECT_THAT(pairs_of(plan, 0), ElementsAre(Pair{0, 0, 7}, Pair{0, 0, 0}));
  EXPECT_THAT(pairs_of(plan, 1), ElementsAre(Pair{0, 0, 6}, Pair{0, 0, 1}));
  EXPECT_THAT(pairs_of(plan, 2), ElementsAre(Pair{0, 0, 5}, Pair{0, 0, 2}));
  EXPECT_THAT(pairs_of(plan, 3), ElementsAre(Pair{0, 0, 4}, Pair{0, 0, 3}));
  EXPECT_DOUBLE_EQ(plan.stats().balance, 1.0);
}

TEST(L2Windows, ConsecutiveItemsOfAQueueAreOneSegment) {
  // Equal items on one queue: a segment a head.
  AttentionSpec full;
  const Batch batch = prompts({1024});
  const Plan plan = make_plan(full, Heads{2, 2}, plain_device(1), batch.input(), kWhole);
  const contract::PlanView view = plan.impl().buffer.view();
  ASSERT_EQ(view.header->num_segments, 2);
  EXPECT_EQ(view.segments()[1].item_begin, 0);
  EXPECT_EQ(view.segments()[1].item_end, 8);
}

TEST(L2Windows, AHeadAtATimeRunsOnAllQueues) {
  // 16 heads of 128 row blocks on 132 queues: what runs at one time is of one or two heads, three
  // where the last items of a head are dealt.
  const Plan plan = plan_of(prompts({16384}), hopper(), Heads{16, 16});
  ASSERT_EQ(scheduler_of(plan), Scheduler::l2_windows);
  const std::vector<PlanSpan> spans = plan.timeline();
  const double end = plan.stats().longest_queue_us;
  for (int i = 1; i < 50; ++i) {
    const double now = end * i / 50;
    int first = 16, last = -1;
    for (const PlanSpan& s : spans) {
      if (s.begin_us > now || s.end_us <= now) continue;
      first = std::min(first, s.kv_head);
      last = std::max(last, s.kv_head);
    }
    EXPECT_LE(last - first, 2) << "at " << now;
  }
}

TEST(L2Windows, IsTakenForPromptsThatFillTheQueues) {
  for (const Heads heads : {Heads{16, 16}, Heads{32, 8}}) {
    for (const Batch& batch : {prompts({16384}), prompts(std::vector<std::int32_t>(4, 4096)),
                               prompts(std::vector<std::int32_t>(32, 512))}) {
      for (const bool causal : {false, true}) {
        AttentionSpec spec;
        if (causal) spec.variant.bounds.right = 0;
        const Plan plan = make_plan(spec, heads, hopper(), batch.input());
        EXPECT_EQ(scheduler_of(plan), Scheduler::l2_windows);
        EXPECT_EQ(plan.stats().partial_slots, 0);
        EXPECT_LT(plan.stats().balance, 1.08);
      }
    }
  }
}

TEST(L2Windows, TheEvenCutStaysWhereDealingGainsNothing) {
  const Heads heads{32, 8};
  // Decode reads; a short prompt has too few pairs, and a batch of long ones more than are listed.
  EXPECT_EQ(scheduler_of(plan_of(
                Batch(std::vector<std::int32_t>(256, 1), std::vector<std::int32_t>(256, 2000)),
                hopper(), heads)),
            Scheduler::even_cut);
  EXPECT_EQ(scheduler_of(plan_of(prompts({2048}), hopper(), heads)), Scheduler::even_cut);
  EXPECT_EQ(scheduler_of(plan_of(prompts(std::vector<std::int32_t>(40, 4096)), hopper(), heads)),
            Scheduler::even_cut);
  // Drafts of one row block each share nothing, however many rows it has.
  std::vector<std::int32_t> drafts(660, 4);
  for (const std::int32_t last : {4, 3}) {
    drafts.back() = last;
    const Batch batch(drafts, std::vector<std::int32_t>(660, 2000));
    EXPECT_EQ(scheduler_of(plan_of(batch, hopper(), Heads{32, 1})), Scheduler::even_cut);
  }
  // 536 equal pairs on 132 queues: eight of them would have a fifth.
  AttentionSpec full;
  EXPECT_EQ(scheduler_of(make_plan(full, Heads{67, 67}, hopper(), prompts({1024}).input())),
            Scheduler::even_cut);
  DeviceLimits unknown = hopper();
  unknown.l2_bytes = 0;
  EXPECT_EQ(scheduler_of(plan_of(prompts({16384}), unknown, heads)), Scheduler::even_cut);
  EXPECT_EQ(
      scheduler_of(plan_of(prompts({16384}), hopper(), heads, {.scheduler = Scheduler::even_cut})),
      Scheduler::even_cut);
}

TEST(L2Windows, MostOfTheCostDecidesForAMixedBatch) {
  // One prompt and requests that decode over few keys, then over many.
  std::vector<std::int32_t> queries(64, 1), keys(64, 100);
  queries[0] = keys[0] = 8192;
  EXPECT_EQ(scheduler_of(plan_of(Batch(queries, keys), hopper(), Heads{32, 8})),
            Scheduler::l2_windows);
  std::fill(keys.begin() + 1, keys.end(), 100000);
  EXPECT_EQ(scheduler_of(plan_of(Batch(queries, keys), hopper(), Heads{32, 8})),
            Scheduler::even_cut);
}

TEST(L2Windows, EqualInputsGiveEqualBytesAfterOtherPlans) {
  const Batch batch = prompts({4096, 5000, 3000, 4096}), other = prompts({16384});
  Planner planner(causal_spec(), Heads{16, 16}, hopper());
  Plan reused;
  planner.plan(other.input(), reused);
  planner.plan(batch.input(), reused);
  ASSERT_EQ(scheduler_of(reused), Scheduler::l2_windows);
  EXPECT_TRUE(std::ranges::equal(plan_of(batch, hopper(), Heads{16, 16}).bytes(), reused.bytes()));
}

TEST(L2Windows, PlacesWhatWasCutBefore) {
  const Batch batch({1, 300}, {5000, 600});
  const Plan plan = plan_of(
      batch, hopper(), Heads{8, 2},
      {.split = SplitMode::fixed, .fixed_split_tokens = 256, .scheduler = Scheduler::l2_windows});
  EXPECT_EQ(scheduler_of(plan), Scheduler::l2_windows);
  EXPECT_GT(plan.stats().partial_slots, 2 * 5000 / 256);
}

TEST(L2Windows, ThePlanFitsItsBound) {
  const Batch batch = prompts({16384});
  planner::Planner planner(causal_spec(), Heads{32, 8}, hopper(), {});
  const Limits limits{.max_batch = 1, .max_qo_tokens = 16384, .max_kv_tokens = 16384};
  Plan plan;
  planner.plan(batch.input(), limits, plan);
  ASSERT_EQ(scheduler_of(plan), Scheduler::l2_windows);
  EXPECT_TRUE(planner::fits(plan, planner::workspace_bound(planner.config(), limits, 16)));
}

TEST(L2Windows, AreExplained) {
  const std::string text = plan_of(prompts({16384}), hopper(), Heads{32, 8}).explain();
  EXPECT_THAT(text, HasSubstr("schedule  head by head in windows of L2"));
  EXPECT_THAT(text, HasSubstr("bound by products"));
  EXPECT_THAT(text, HasSubstr("split     nowhere"));
}

}  // namespace
}  // namespace trencadis::testing
