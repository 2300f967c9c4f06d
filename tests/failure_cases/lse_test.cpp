// D1-D3: the LSE's base, and the same bits for the same request.
#include "failure_cases/case.h"

namespace trencadis::testing {
namespace {

// A shared prefix and a suffix, attended to apart and merged.
TEST(FailureCases, D1PrefixAndSuffixMerge) {
  for (const LseBase base : {LseBase::natural, LseBase::two}) {
    const auto attend = [base](std::int64_t keys, double value) {
      const Problem problem = ProblemBuilder()
                                  .heads(2, 1)
                                  .dims(64)
                                  .lengths({{1, keys}})
                                  .dtype(DType::f32)
                                  .query_scale(0.0)
                                  .lse_base(base)
                                  .build();
      set_values(problem, [value](auto, auto) { return value; });
      return run_engine(problem);
    };
    const auto as_tensors = [](const Output& state) {
      HostTensor o(DType::f32, {1, 2, 64}), lse(DType::f32, {1, 2});
      std::size_t i = 0, j = 0;
      fill(o.whole(), [&] { return state.out[i++]; });
      fill(lse.whole(), [&] { return state.lse[j++]; });
      return std::pair(std::move(o), std::move(lse));
    };
    const auto [o_a, lse_a] = as_tensors(attend(3072, 0.0));
    const auto [o_b, lse_b] = as_tensors(attend(64, 1.0));
    const HostTensor o(DType::f32, {1, 2, 64}), lse(DType::f32, {1, 2});
    merge_states(o_a.whole(), lse_a.whole(), o_b.whole(), lse_b.whole(), o.whole(), lse.whole(),
                 {.base = base});
    for (const double x : to_doubles(o.whole())) EXPECT_NEAR(x, 64.0 / 3136.0, 1e-7);
    const double unit = base == LseBase::two ? std::log(2.0) : 1.0;
    for (const double x : to_doubles(lse.whole())) EXPECT_NEAR(x * unit, std::log(3136.0), 2e-6);
  }
}

TEST(FailureCases, D2TheSameBatchGivesTheSameBits) {
  const Problem problem = ProblemBuilder()
                              .heads(8, 2)
                              .dims(64)
                              .causal()
                              .lengths({{1, 900}, {33, 70}, {1, 1}, {5, 400}})
                              .build();
  Attention attention = planned(problem);
  const Output first = run(attention, problem);
  for (int round = 0; round < 100; ++round) {
    if (round % 10 == 0) attention.plan(problem.plan_input());
    ASSERT_TRUE(same_bits(run(attention, problem), first)) << "round " << round;
  }
}

/// `request` of a batch, by itself: the same tokens in the same pool.
Problem alone(const Problem& batch, std::size_t request, const ProblemBuilder& settings) {
  const std::int64_t l_q = batch.qo_indptr[request + 1] - batch.qo_indptr[request];
  ProblemBuilder builder = settings;
  Problem solo = builder.lengths({{l_q, batch.kv_lens[request]}}).build();
  const auto first = batch.matrix.indices.begin();
  solo.matrix.indices.assign(first + batch.matrix.indptr[request],
                             first + batch.matrix.indptr[request + 1]);
  solo.q = batch.q.slice(0, batch.qo_indptr[request], batch.qo_indptr[request + 1]);
  solo.k = batch.k;
  solo.v = batch.v;
  return solo;
}

TEST(FailureCases, D3InvariantModeIgnoresTheRestOfTheBatch) {
  PlanOptions options;
  options.batch_invariant = true;
  for (const Lengths& request : {Lengths{1, 5000}, Lengths{40, 3000}}) {
    for (const std::size_t place : {std::size_t{0}, std::size_t{127}}) {
      std::vector<Lengths> lengths(128, Lengths{1, 9});
      lengths[place] = request;
      ProblemBuilder settings;
      settings.heads(4, 2).dims(64).causal().plan(options);
      ProblemBuilder builder = settings;
      const Problem batch = builder.lengths(lengths).build();
      const Output together = run_engine(batch);
      const Problem solo = alone(batch, place, settings);
      EXPECT_TRUE(
          same_bits(rows_of(together, batch, batch.qo_indptr[place], batch.qo_indptr[place + 1]),
                    run_engine(solo)))
          << "l_q " << request.q << " at place " << place;
    }
  }
}

}  // namespace
}  // namespace trencadis::testing
