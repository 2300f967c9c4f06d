#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/planner/plan_cases.h"

namespace trencadis::testing {
namespace {

using ::testing::HasSubstr;

TEST(Explain, SaysWhatWasChosenAndWhy) {
  const Batch batch({1, 1}, {4096, 100});
  const std::string text =
      make_plan(causal_spec(), Heads{32, 8}, known_device("h200"), batch.input()).explain();
  EXPECT_THAT(text, HasSubstr("device    h200: 132 queues, 4600 GB/s"));
  EXPECT_THAT(text, HasSubstr("2 requests, 32 query heads on 8 KV heads"));
  EXPECT_THAT(text, HasSubstr("T_q 16 x T_kv 64"));
  EXPECT_THAT(text, HasSubstr("schedule  even cut"));
  EXPECT_THAT(text, HasSubstr("partial slots (16 rows each)"));
  EXPECT_THAT(text, HasSubstr("balance"));
  EXPECT_THAT(text, HasSubstr("workspace"));
  EXPECT_EQ(Plan().explain(), "no plan yet\n");
}

TEST(Explain, NamesTheRowBlocksThatNoQueueHas) {
  const Batch batch({1, 1, 1}, {0, 4096, 0});
  const std::string text =
      make_plan(causal_spec(), Heads{32, 8}, known_device("h200"), batch.input()).explain();
  EXPECT_THAT(text, HasSubstr("1 row blocks of 1 requests"));
  EXPECT_THAT(text, HasSubstr("empty     2 row blocks a KV head see no key"));
}

TEST(Explain, SpansAndMergesTellTheSameStory) {
  const Batch batch({1, 1}, {40960, 100});
  const Plan plan = make_plan(causal_spec(), Heads{32, 8}, known_device("h200"), batch.input());
  const PlanStats stats = plan.stats();
  std::vector<double> ends(static_cast<std::size_t>(stats.queues), 0.0);
  std::int64_t partial = 0;
  for (const PlanSpan& span : plan.timeline()) {
    EXPECT_DOUBLE_EQ(span.begin_us, ends[static_cast<std::size_t>(span.queue)]);
    ends[static_cast<std::size_t>(span.queue)] = span.end_us;
    partial += span.partial_slot >= 0;
  }
  EXPECT_DOUBLE_EQ(*std::max_element(ends.begin(), ends.end()), stats.longest_queue_us);
  EXPECT_EQ(partial, stats.partial_slots);
  std::int64_t merged = 0;
  for (const PlanMerge& merge : plan.merges()) {
    EXPECT_EQ(merge.first_slot, merged);
    merged += merge.num_slots;
    EXPECT_EQ(merge.request, 0);
  }
  EXPECT_EQ(merged, stats.partial_slots);
}

}  // namespace
}  // namespace trencadis::testing
