// E1-E5: rows that see nothing, and logits of any finite size.
#include "failure_cases/case.h"

namespace trencadis::testing {
namespace {

// The first tile of query rows lies wholly before the first key.
TEST(FailureCases, E1CausalRowsBeforeTheFirstKey) {
  for (const std::int64_t l_q : {34, 300}) {
    const Problem problem =
        ProblemBuilder().heads(32, 32).dims(128).lengths({{l_q, 1}}).causal().build();
    set_keys(problem, [](auto, auto) { return 0.0; });
    set_values(problem, [](auto, auto) { return 1.0; });
    const Output output = run_engine(problem);
    for (std::int64_t head = 0; head < 32; ++head) {
      for (std::int64_t row = 0; row + 1 < l_q; ++row) {
        ASSERT_TRUE(is_empty_row(output, problem, row, head));
      }
      const auto last = static_cast<std::size_t>((l_q - 1) * 32 + head);
      EXPECT_EQ(output.lse[last], 0.0);
      for (std::size_t d = 0; d < 128; ++d) ASSERT_EQ(output.out[last * 128 + d], 1.0);
    }
  }
}

void expect_empty_requests_between_others(std::vector<std::int64_t> l_q, PlanOptions options) {
  const Problem problem = ProblemBuilder()
                              .heads(8, 2)
                              .dims(64)
                              .lengths({{l_q[0], 0}, {l_q[1], 5}, {l_q[2], 0}, {l_q[3], 1}})
                              .plan(options)
                              .build();
  const Output output = run_engine(problem);
  for (const std::size_t request : {0u, 2u}) {
    for (std::int64_t t = problem.qo_indptr[request]; t < problem.qo_indptr[request + 1]; ++t) {
      for (int head = 0; head < 8; ++head) EXPECT_TRUE(is_empty_row(output, problem, t, head));
    }
  }
  EXPECT_TRUE(close_to_reference(output, problem));
}

TEST(FailureCases, E2RequestsWithoutKeys) {
  for (const std::vector<std::int64_t>& l_q :
       {std::vector<std::int64_t>{1, 1, 1, 1}, {3, 5, 2, 4}, {40, 1, 0, 70}}) {
    expect_empty_requests_between_others(l_q, {});
    expect_empty_requests_between_others(l_q, unsplit());
    expect_empty_requests_between_others(l_q, split_every(32));
  }
}

TEST(FailureCases, E2AllLengthsZeroAndAnEmptyBatch) {
  const Problem zeros = ProblemBuilder().lengths({{1, 0}, {7, 0}, {0, 0}}).dims(64).build();
  const Output output = run_engine(zeros);
  for (std::int64_t t = 0; t < 8; ++t) {
    for (int head = 0; head < 32; ++head) EXPECT_TRUE(is_empty_row(output, zeros, t, head));
  }
  EXPECT_TRUE(run_engine(ProblemBuilder().dims(64).lengths({}).build()).out.empty());
}

// Logits of -21722 and +21722: no finite sentinel lies below, nothing overflows above.
TEST(FailureCases, E3LogitsOfAnyFiniteSize) {
  for (const std::int64_t keys : {1, 2}) {
    for (const double k : {-48.0, 48.0}) {
      const Problem problem =
          ProblemBuilder().heads(1, 1).dims(128).lengths({{1, keys}}).dtype(DType::f32).build();
      set_queries(problem, 40.0);
      set_keys(problem, [k](auto, auto) { return k; });
      set_values(problem, [](auto, std::int64_t j) { return 0.25 + static_cast<double>(j); });
      const Output output = run_engine(problem);
      const double mean = keys == 1 ? 0.25 : 0.75;
      for (const double x : output.out) EXPECT_EQ(x, mean) << "exact: a value, or half of a sum";
      const double logit = 40.0 * k * 128 / std::sqrt(128.0);
      EXPECT_NEAR(output.lse[0], logit + std::log(static_cast<double>(keys)), 0.005);
    }
  }
}

/// One state of one row and head: o in two lanes, and its LSE.
struct State {
  HostTensor o, lse;
  State(double value, double log_sum)
      : o(DType::f32, {1, 1, 2}, value), lse(DType::f32, {1, 1}, log_sum) {}
};

void expect_merged(const State& a, const State& b, double o, double lse) {
  const State result(kNan, 123.0);
  merge_states(a.o.whole(), a.lse.whole(), b.o.whole(), b.lse.whole(), result.o.whole(),
               result.lse.whole());
  EXPECT_EQ(get(result.o.whole(), {0, 0, 1}), o);
  EXPECT_EQ(get(result.lse.whole(), {0, 0}), lse);
}

TEST(FailureCases, E4MergingEmptyStates) {
  expect_merged(State(0, -kInf), State(0, -kInf), 0, -kInf);
  expect_merged(State(kNan, -kInf), State(kNan, -kInf), 0, -kInf);
  expect_merged(State(kNan, -kInf), State(0.75, 3.5), 0.75, 3.5);
  expect_merged(State(0.75, 3.5), State(kNan, -kInf), 0.75, 3.5);
}

TEST(FailureCases, E4MergingNoStatesAtAll) {
  const HostTensor o(DType::f32, {0, 2, 3, 4}), lse(DType::f32, {0, 2, 3});
  const HostTensor out(DType::f32, {2, 3, 4}), out_lse(DType::f32, {2, 3}, 123.0);
  merge_states(o.whole(), lse.whole(), out.whole(), out_lse.whole());
  for (const double x : to_doubles(out.whole())) EXPECT_EQ(x, 0.0);
  for (const double x : to_doubles(out_lse.whole())) EXPECT_EQ(x, -kInf);
}

/// A batch with requests without keys among the others: bits, and how many merges there were.
std::int64_t expect_padding_changes_nothing(ProblemBuilder builder, std::vector<Lengths> lengths) {
  const Problem padded = builder.lengths(std::move(lengths)).build();
  const Problem alone = without_empty_requests(padded);
  Attention with_padding = planned(padded), without = planned(alone);
  const Output output = run(with_padding, padded);
  EXPECT_TRUE(same_bits(rows_with_keys(output, padded), run(without, alone)));
  for (std::size_t b = 0; b < padded.kv_lens.size(); ++b)
    for (std::int64_t t = padded.qo_indptr[b]; t < padded.qo_indptr[b + 1]; ++t)
      for (int head = 0; head < padded.config.heads.qo && padded.kv_lens[b] == 0; ++head)
        EXPECT_TRUE(is_empty_row(output, padded, t, head));
  EXPECT_EQ(with_padding.current_plan().stats().merges, without.current_plan().stats().merges);
  return without.current_plan().stats().merges;
}

// Padding in front, between and behind, of one row and of several tiles.
TEST(FailureCases, E5PaddingChangesNoBit) {
  const std::vector<std::vector<Lengths>> batches{
      {{1, 3000}, {1, 40}, {1, 1900}, {1, 0}, {1, 0}, {1, 0}, {1, 0}, {1, 0}},
      {{1, 0}, {1, 0}, {1, 0}, {1, 3000}, {1, 40}, {1, 1900}},
      {{1, 0}, {1, 3000}, {1, 0}, {1, 0}, {1, 40}, {1, 0}, {1, 1900}, {1, 0}},
      {{150, 0}, {1, 3000}, {3, 0}, {40, 900}, {1, 0}, {0, 0}, {9, 200}, {200, 0}}};
  PlanOptions invariant, even_cut, longest_first, l2_windows;
  invariant.batch_invariant = true;
  even_cut.scheduler = Scheduler::even_cut;
  longest_first.scheduler = Scheduler::longest_first;
  l2_windows.scheduler = Scheduler::l2_windows;
  for (const PlanOptions& options : {PlanOptions{}, even_cut, longest_first, l2_windows, unsplit(),
                                     split_every(256), invariant}) {
    std::int64_t merges = 0;
    for (const std::vector<Lengths>& lengths : batches) {
      ProblemBuilder builder;
      builder.heads(8, 2).dims(64).page_size(16).threads(4).plan(options);
      builder.variant(variants::softmax({.causal = true, .sinks = true}));
      merges += expect_padding_changes_nothing(builder, lengths);
    }
    EXPECT_EQ(merges > 0, options.split != SplitMode::none) << "cuts that could have moved";
  }
}

}  // namespace
}  // namespace trencadis::testing
