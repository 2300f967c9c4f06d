#include "serving/batcher.h"

#include <gmock/gmock.h>
#include <trencadis/error.h>

#include <map>
#include <random>
#include <set>

namespace trencadis::app {
namespace {

using ::testing::ElementsAre;

Batcher::Source from(std::vector<TraceRequest> requests) {
  return [requests = std::move(requests), next = std::size_t{0}]() mutable {
    return next < requests.size() ? std::optional(requests[next++]) : std::nullopt;
  };
}

std::vector<Step> all_steps(const BatcherOptions& options, std::vector<TraceRequest> requests) {
  Batcher batcher(options, "trace", from(std::move(requests)));
  std::vector<Step> steps;
  for (Step step; batcher.next(step);) steps.push_back(step);
  return steps;
}

BatcherOptions small_options() {
  BatcherOptions options;
  options.max_batch = 4;
  options.chunk_tokens = 8;
  options.page_size = 4;
  options.num_pages = 64;
  options.step_time_s = 0.0;
  return options;
}

TEST(Batcher, ChunksAPromptThenDecodes) {
  const auto steps = all_steps(small_options(), {{0.0, 10, 3, 1}});
  ASSERT_EQ(steps.size(), 4u);
  EXPECT_EQ(steps[0].prompt_tokens, 8);
  EXPECT_EQ(steps[1].prompt_tokens, 2);  // and the first token of the answer
  EXPECT_TRUE(steps[2].is_decode());
  EXPECT_TRUE(steps[3].is_decode());
  EXPECT_THAT(steps[3].kv_lens, ElementsAre(12));
  EXPECT_THAT(steps[3].positions, ElementsAre(11));
  EXPECT_THAT(steps[3].kv_indptr, ElementsAre(0, 3));
}

TEST(Batcher, MixesDecodesWithTheNextPrompt) {
  const auto steps = all_steps(small_options(), {{0.0, 8, 4, 1}, {0.0, 6, 1, 2}});
  ASSERT_EQ(steps.size(), 4u);
  EXPECT_THAT(steps[0].lines, ElementsAre(1));  // the chunk is used up; the other prompt waits
  EXPECT_THAT(steps[1].lines, ElementsAre(1, 2));
  EXPECT_EQ(steps[1].decode_tokens, 1);
  EXPECT_EQ(steps[1].prompt_tokens, 6);
  EXPECT_THAT(steps[1].qo_indptr, ElementsAre(0, 1, 7));
  EXPECT_THAT(steps[2].lines, ElementsAre(1));
}

TEST(Batcher, ARequestWithoutAnAnswerIsDoneAfterItsPrompt) {
  EXPECT_EQ(all_steps(small_options(), {{0.0, 5, 0, 1}}).size(), 1u);
}

TEST(Batcher, WaitsForArrivalAndJumpsOverGaps) {
  BatcherOptions options = small_options();
  options.step_time_s = 1.0;
  // The second arrives during the third step; the third after a gap of hours.
  const auto steps = all_steps(options, {{0.0, 1, 5, 1}, {2.5, 1, 1, 2}, {9999.0, 1, 1, 3}});
  ASSERT_EQ(steps.size(), 6u);
  EXPECT_EQ(steps[2].batch(), 1);
  EXPECT_EQ(steps[3].batch(), 2);
  EXPECT_THAT(steps[5].lines, ElementsAre(3));
}

TEST(Batcher, WaitsForPages) {
  BatcherOptions options = small_options();
  options.num_pages = 4;  // 16 tokens
  const auto steps = all_steps(options, {{0.0, 8, 2, 1}, {0.0, 8, 2, 2}});
  for (const Step& step : steps) EXPECT_EQ(step.batch(), 1);
  EXPECT_EQ(steps.size(), 4u);
}

TEST(Batcher, ARequestThatCanNeverFitIsAnErrorThatSaysWhatWould) {
  BatcherOptions options = small_options();
  options.num_pages = 4;
  try {
    all_steps(options, {{0.0, 16, 2, 7}});
    FAIL() << "expected Error(out_of_capacity)";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::out_of_capacity);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("trace:7: the request needs 5 pages"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("raise --pool-tokens to at least 20"));
  }
}

TEST(Batcher, RefusesOptionsThatAreNotPositive) {
  for (const auto member : {&BatcherOptions::max_batch, &BatcherOptions::chunk_tokens,
                            &BatcherOptions::page_size, &BatcherOptions::num_pages}) {
    BatcherOptions options = small_options();
    options.*member = 0;
    EXPECT_THROW(Batcher(options, "trace", from({})), Error);
  }
}

/// What every schedule must keep to, whatever the trace.
void check_laws(const BatcherOptions& options, const std::vector<TraceRequest>& requests) {
  std::map<std::int64_t, std::int64_t> computed;  // tokens in the cache by line
  for (const Step& step : all_steps(options, requests)) {
    ASSERT_GE(step.batch(), 1);
    ASSERT_LE(step.batch(), options.max_batch);
    ASSERT_LE(step.prompt_tokens, options.chunk_tokens);
    ASSERT_EQ(step.tokens(), step.qo_indptr.back());
    std::set<std::int32_t> pages(step.kv_indices.begin(), step.kv_indices.end());
    ASSERT_EQ(pages.size(), step.kv_indices.size()) << "a page has two owners";
    ASSERT_TRUE(pages.empty() || *pages.rbegin() < options.num_pages);
    for (std::size_t b = 0; b < step.kv_lens.size(); ++b) {
      std::int64_t& length = computed[step.lines[b]];
      for (std::int32_t t = step.qo_indptr[b]; t < step.qo_indptr[b + 1]; ++t) {
        ASSERT_EQ(step.batch_indices[static_cast<std::size_t>(t)], static_cast<std::int32_t>(b));
        ASSERT_EQ(step.positions[static_cast<std::size_t>(t)], length++);
      }
      ASSERT_EQ(step.kv_lens[b], length);
      const std::int64_t owned = step.kv_indptr[b + 1] - step.kv_indptr[b];
      ASSERT_EQ(owned, (length + options.page_size - 1) / options.page_size);
    }
  }
  for (const TraceRequest& request : requests)
    ASSERT_EQ(computed[request.line],
              request.input_tokens + std::max<std::int64_t>(request.output_tokens - 1, 0));
}

TEST(Batcher, ComputesEveryTokenOnceAndInOrder) {
  std::mt19937 random(7);
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int round = 0; round < 50; ++round) {
    BatcherOptions options;
    options.max_batch = draw(1, 9);
    options.chunk_tokens = draw(1, 40);
    options.page_size = draw(1, 17);
    options.num_pages = 120 / options.page_size + draw(1, 30);
    options.step_time_s = static_cast<double>(draw(0, 3));
    std::vector<TraceRequest> requests;
    double arrival = 0.0;
    for (std::int64_t line = 1; line <= 30; ++line) {
      arrival += static_cast<double>(draw(0, 8));
      requests.push_back({arrival, draw(1, 80), draw(0, 40), line});
    }
    check_laws(options, requests);
  }
}

}  // namespace
}  // namespace trencadis::app
