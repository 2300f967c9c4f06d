#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "planner/plan_impl.h"
#include "unit/planner/plan_cases.h"

namespace trencadis::testing {
namespace {

TEST(EvenCut, OneLongRequestFillsEveryQueueOnce) {
  const Batch batch({1}, {131072});
  const Plan plan = make_plan(causal_spec(), Heads{32, 8}, known_device("h200"), batch.input());
  const PlanStats stats = plan.stats();
  // 131 cuts; 7 of the 8 heads begin inside a queue.
  EXPECT_EQ(stats.merges, 8);
  EXPECT_LE(stats.partial_slots, 2 * 132);
  EXPECT_LT(stats.balance, 1.02);
}

TEST(EvenCut, AShareEndsAtAKvTile) {
  const Batch batch({1}, {640});
  const Plan plan = make_plan(causal_spec(), Heads{4, 1}, device_of(2), batch.input());
  const std::vector<PlanSpan> spans = plan.timeline();
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].kv_begin, 0);
  EXPECT_EQ(spans[0].kv_end, 320);
  EXPECT_EQ(spans[0].partial_slot, 0);
  EXPECT_EQ(spans[1].kv_begin, 320);
  EXPECT_EQ(spans[1].kv_end, 640);
  EXPECT_EQ(spans[1].partial_slot, 1);
  ASSERT_EQ(plan.merges().size(), 1u);
  EXPECT_EQ(plan.merges()[0].num_slots, 2);
}

TEST(EvenCut, EqualRequestsThatDivideEvenlyAreNotSplit) {
  const Batch batch(std::vector<std::int32_t>(132, 1), std::vector<std::int32_t>(132, 4096));
  const PlanStats stats =
      make_plan(causal_spec(), Heads{32, 8}, known_device("h200"), batch.input()).stats();
  EXPECT_EQ(stats.partial_slots, 0);
  EXPECT_DOUBLE_EQ(stats.balance, 1.0);
}

TEST(EvenCut, AMixedBatchHasAClassForEachPart) {
  const Batch batch({1, 512, 1}, {1000, 2048, 30});
  const Plan plan = make_plan(causal_spec(), Heads{32, 8}, known_device("h200"), batch.input());
  const std::string text = plan.explain();
  EXPECT_NE(text.find("T_q 16 x T_kv 64: 2 row blocks of 2 requests"), std::string::npos) << text;
  EXPECT_NE(text.find("T_q 128 x T_kv 128: 16 row blocks of 1 requests"), std::string::npos)
      << text;
}

TEST(EvenCut, CausalRowBlocksReadNoKeyThatTheyCannotSee) {
  // 64 tokens on 64 keys in blocks of 32 tokens: [0, 32) and [0, 64), not twice [0, 64).
  const Batch batch({64}, {64});
  const Plan plan = make_plan(causal_spec(), Heads{4, 1}, device_of(1), batch.input());
  EXPECT_EQ(plan.stats().kv_tokens_read, 32 + 64);
}

TEST(EvenCut, AWindowSkipsTheKeysLeftOfIt) {
  AttentionSpec spec = causal_spec();
  spec.variant.bounds.left = 99;
  const Batch batch({1}, {5000});
  const Plan plan = make_plan(spec, Heads{4, 1}, device_of(1), batch.input());
  ASSERT_EQ(plan.timeline().size(), 1u);
  EXPECT_EQ(plan.timeline()[0].kv_begin, 4900);
  EXPECT_EQ(plan.timeline()[0].kv_end, 5000);
}

TEST(EvenCut, RangesAtTheEndsOfTheirTypeAreThoseOfDeclaredBounds) {
  // Bounds that exclude nothing take the general path, a page table alone the short one.
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max() - 4096;
  const std::vector<Batch> batches{Batch({1 << 20}, {kMost}), Batch({1 << 20}, {1 << 19}),
                                   Batch({kMost / 128}, {kMost}), Batch({700, 3000}, {5000, 2999}),
                                   Batch({1, 1}, {kMost, 0})};
  for (const MaskBounds bounds :
       {MaskBounds{-1, 0}, MaskBounds{1000, 0}, MaskBounds{0, 0}, MaskBounds{-1, -1},
        MaskBounds{100, kMost}, MaskBounds{kMost, 100}, MaskBounds{64, 1 << 30}}) {
    AttentionSpec spec;
    spec.variant.bounds = bounds;
    for (const Batch& batch : batches) {
      PlanInput input = batch.input();
      const Plan plain = make_plan(spec, Heads{32, 8}, device_of(4), input);
      input.kv_bounds = [&](std::int64_t request, std::int64_t, std::int64_t) {
        return KvRange{0, batch.kv_lens[static_cast<std::size_t>(request)]};
      };
      const Plan declared = make_plan(spec, Heads{32, 8}, device_of(4), input);
      EXPECT_TRUE(std::ranges::equal(plain.bytes(), declared.bytes()))
          << bounds.left << ", " << bounds.right << ", l_q " << batch.qo_indptr[1];
    }
  }
}

TEST(EvenCut, RowBlocksThatSeeNothingComeLastAndHaveNoItem) {
  // E1: l_q = 300, l_kv = 1: the last row alone sees the key, and the first tiles see none.
  const Batch batch({300, 1}, {1, 7});
  const Plan plan = make_plan(causal_spec(), Heads{32, 32}, known_device("h200"), batch.input());
  const contract::PlanView view = plan.impl().buffer.view();
  ASSERT_EQ(view.header->num_row_blocks, 4);
  EXPECT_EQ(view.header->num_empty_row_blocks, 2);
  const auto first_rows = [&](int i) { return view.row_blocks()[i].first_row; };
  EXPECT_EQ(first_rows(0), 256);
  EXPECT_EQ(view.row_blocks()[1].request, 1);
  EXPECT_EQ(first_rows(2) + first_rows(3), 128);
  EXPECT_EQ(plan.stats().items, 2);
}

TEST(EvenCut, EmptyBatchesAndEmptyRequestsAreOrdinary) {
  const Batch none({}, {});
  EXPECT_EQ(
      make_plan(causal_spec(), Heads{32, 8}, known_device("h200"), none.input()).stats().items, 0);
  // l_kv = 0 is the padding of graphs: rows without work; l_q = 0 has no row to write.
  const Batch padded({1, 1, 0, 1}, {0, 0, 9, 0});
  const PlanStats stats =
      make_plan(causal_spec(), Heads{32, 8}, known_device("h200"), padded.input()).stats();
  EXPECT_EQ(stats.row_blocks, 3);
  EXPECT_EQ(stats.items, 0);
  EXPECT_EQ(stats.kv_tokens_read, 0);
  EXPECT_EQ(stats.partial_slots, 0);
}

}  // namespace
}  // namespace trencadis::testing
