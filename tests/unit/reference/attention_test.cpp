// The oracle against values derived by hand: it is trusted by all other tests.
#include "backends/reference/attention.h"

#include <gmock/gmock.h>

#include <cmath>

#include "support/run.h"

namespace trencadis::testing {
namespace {

using ::testing::Each;

/// One head of dimension 8: q = 0, so that every visible key weighs the same.
ProblemBuilder uniform(std::vector<Lengths> lengths) {
  ProblemBuilder builder;
  builder.heads(1, 1).dims(8).lengths(std::move(lengths)).page_size(4).dtype(DType::f32);
  return builder.query_scale(0.0);
}

double out_of(const Output& output, std::int64_t row) {
  return output.out[static_cast<std::size_t>(row * 8)];
}

TEST(Reference, UniformWeightsGiveTheMeanAndTheLogOfTheCount) {
  const Problem problem = uniform({{1, 6}, {2, 3}}).build();
  set_values(problem, [](std::int64_t, std::int64_t j) { return static_cast<double>(j); });
  const Output output = run_reference(problem);
  EXPECT_DOUBLE_EQ(out_of(output, 0), 2.5);
  EXPECT_DOUBLE_EQ(out_of(output, 1), 1.0);
  EXPECT_DOUBLE_EQ(out_of(output, 2), 1.0);
  EXPECT_DOUBLE_EQ(output.lse[0], std::log(6.0));
  EXPECT_DOUBLE_EQ(output.lse[2], std::log(3.0));
}

// M1: bottom-right alignment, both ways round.
TEST(Reference, CausalIsAlignedBottomRight) {
  const Problem wide = uniform({{2, 3}}).causal().build();
  set_values(wide, [](std::int64_t, std::int64_t j) { return static_cast<double>(1 << j); });
  const Output sees = run_reference(wide);
  EXPECT_DOUBLE_EQ(out_of(sees, 0), (1 + 2) / 2.0);
  EXPECT_DOUBLE_EQ(out_of(sees, 1), (1 + 2 + 4) / 3.0);

  const Problem tall = uniform({{3, 2}}).causal().build();
  set_values(tall, [](std::int64_t, std::int64_t j) { return static_cast<double>(1 << j); });
  const Output first_sees_nothing = run_reference(tall);
  EXPECT_EQ(out_of(first_sees_nothing, 0), 0.0);
  EXPECT_EQ(first_sees_nothing.lse[0], -kInf);
  EXPECT_DOUBLE_EQ(out_of(first_sees_nothing, 1), 1.0);
  EXPECT_DOUBLE_EQ(out_of(first_sees_nothing, 2), 1.5);
}

TEST(Reference, WindowsAreInclusiveOnBothSides) {
  Variant variant;
  variant.bounds = {1, 2};
  const Problem problem = uniform({{1, 1}, {6, 6}}).variant(variant).build();
  const Output output = run_reference(problem);
  const double visible[] = {1, 3, 4, 4, 4, 3, 2};
  for (std::size_t row = 0; row < 7; ++row) {
    EXPECT_DOUBLE_EQ(output.lse[row], std::log(visible[row])) << row;
  }
}

TEST(Reference, RequestsWithoutKeysAndWithoutQueries) {
  const Output output = run_reference(uniform({{2, 0}, {0, 7}, {1, 1}}).build());
  for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(output.out[i], 0.0);
  EXPECT_EQ(output.lse[0], -kInf);
  EXPECT_EQ(output.lse[2], 0.0);
  EXPECT_TRUE(run_reference(uniform({}).build()).out.empty());
}

// q.k scaled by 1 / sqrt(D) unless told; base 2 on request.
TEST(Reference, ScaleAndBaseOfTheLse) {
  const auto lse = [](double scale, LseBase base) {
    const Problem problem = uniform({{1, 1}}).sm_scale(scale).lse_base(base).build();
    fill(problem.q, 2.0);
    fill(problem.k, 3.0);
    return run_reference(problem).lse[0];
  };
  EXPECT_DOUBLE_EQ(lse(0.0, LseBase::natural), 48.0 / std::sqrt(8.0));
  EXPECT_DOUBLE_EQ(lse(0.5, LseBase::natural), 24.0);
  EXPECT_DOUBLE_EQ(lse(0.5, LseBase::two), 24.0 / std::log(2.0));
}

// M5: n keys at logit 0 and V = 1 beside a sink at 0; the LSE is of the keys alone.
TEST(Reference, ASinkJoinsTheDenominatorOnce) {
  Variant variant;
  variant.sinks = true;
  for (const std::int64_t n : {0, 1, 5}) {
    const Problem problem = uniform({{1, n}})
                                .variant(variant)
                                .tensor("sinks", HostTensor(DType::f32, {1}, 0.0))
                                .build();
    set_values(problem, [](std::int64_t, std::int64_t) { return 1.0; });
    const Output output = run_reference(problem);
    const auto keys = static_cast<double>(n);
    EXPECT_DOUBLE_EQ(out_of(output, 0), keys / (keys + 1));
    EXPECT_DOUBLE_EQ(output.lse[0], std::log(keys));
  }
}

TEST(Reference, AHugeSinkOverflowsNothing) {
  Variant variant;
  variant.sinks = true;
  const Problem problem =
      uniform({{1, 2}}).variant(variant).tensor("sinks", HostTensor(DType::f32, {1}, 1e30)).build();
  EXPECT_THAT(run_reference(problem).out, Each(0.0));
}

TEST(Reference, QueryHeadsShareKvHeadsByGroups) {
  const Problem problem =
      ProblemBuilder().heads(6, 2).dims(8).lengths({{1, 1}}).page_size(4).dtype(DType::f32).build();
  const std::vector<double> v = to_doubles(reference::as_blocks(problem.v, KvLayout::nhd, 4)
                                               .select(0, problem.matrix.indices[0])
                                               .select(0, 0));
  const Output output = run_reference(problem);
  for (std::size_t h = 0; h < 6; ++h) {
    EXPECT_EQ(output.out[h * 8], v[h / 3 * 8]) << "one key: o is its value, head " << h;
  }
}

// E3: logits of any finite size are exact.
TEST(Reference, LargeLogits) {
  const Problem problem =
      ProblemBuilder().heads(1, 1).dims(128).lengths({{1, 2}}).dtype(DType::f32).build();
  fill(problem.q, 40.0);
  fill(problem.k, -48.0);
  EXPECT_NEAR(run_reference(problem).lse[0], -21722.32 + std::log(2.0), 5e-3);
}

// Page ids, layouts, pool styles and index widths say where the same numbers lie.
TEST(Reference, StorageChangesNothing) {
  const auto build = [](KvLayout layout, PoolStyle style) {
    return ProblemBuilder()
        .heads(4, 2)
        .dims(16, 8)
        .lengths({{3, 9}, {1, 20}})
        .page_size(3)
        .dtype(DType::bf16)
        .causal()
        .layout(layout)
        .pool(style)
        .seed(7)
        .build();
  };
  const Output one = run_reference(build(KvLayout::nhd, PoolStyle::separate));
  for (const PoolStyle style : {PoolStyle::interleaved, PoolStyle::layered}) {
    EXPECT_TRUE(same_bits(run_reference(build(KvLayout::nhd, style)), one));
  }
  for (const double x : one.out) EXPECT_TRUE(std::isfinite(x));
  const Output hnd = run_reference(build(KvLayout::hnd, PoolStyle::interleaved));
  EXPECT_TRUE(same_bits(hnd, one)) << "the builder draws the same tokens for either layout";
}

}  // namespace
}  // namespace trencadis::testing
