// The fixtures that other tests stand on: hostile where they should be, and strict.
#include <gmock/gmock.h>

#include <cmath>

#include "support/compare.h"
#include "support/problem.h"

namespace trencadis::testing {
namespace {

ProblemBuilder small() {
  ProblemBuilder builder;
  return builder.heads(4, 2)
      .dims(16)
      .lengths({{2, 9}, {1, 0}, {3, 20}})
      .page_size(4)
      .dtype(DType::bf16)
      .seed(3);
}

TEST(Fixture, UnownedTokensAreNaNAndOwnedOnesAreNot) {
  for (const KvLayout layout : {KvLayout::nhd, KvLayout::hnd}) {
    const Problem problem = small().layout(layout).build();
    const TensorView k = reference::as_blocks(problem.k, layout, 4);
    std::int64_t finite = 0;
    for (const double x : to_doubles(k)) finite += std::isfinite(x) ? 1 : 0;
    EXPECT_EQ(finite, (9 + 20) * 2 * 16);
    EXPECT_GT(k.size(0), 3 + 5) << "some pages are owned by nobody";
  }
}

TEST(Fixture, StridesAreThoseOfARealServer) {
  const Problem problem = small().pool(PoolStyle::layered).build();
  EXPECT_EQ(problem.q.stride(0), (4 + 2 * 2) * 16) << "q is a slice of a fused QKV";
  EXPECT_EQ(problem.k.stride(0), 3 * 2 * 4 * 2 * 16) << "three layers, K and V in a page";
  EXPECT_EQ(problem.v.data_as<std::uint16_t>() - problem.k.data_as<std::uint16_t>(), 4 * 2 * 16);
}

TEST(Fixture, TheSameSeedGivesTheSameProblem) {
  EXPECT_TRUE(same_bits(run_reference(small().build()), run_reference(small().build())));
  EXPECT_FALSE(same_bits(run_reference(small().build()), run_reference(small().seed(4).build())));
}

/// What a kernel in the problem's precision would return at best.
Output rounded(const Problem& problem) {
  const Output exact = run_reference(problem);
  HostTensor out(problem.spec.dtype_o, {static_cast<std::int64_t>(exact.out.size())});
  std::size_t i = 0;
  fill(out.whole(), [&] { return exact.out[i++]; });
  return {to_doubles(out.whole()), exact.lse};
}

TEST(Closeness, TheRoundedOracleIsClose) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const Problem problem = small().dtype(dtype).causal().build();
    EXPECT_TRUE(close_to_reference(rounded(problem), problem)) << to_string(dtype);
  }
}

TEST(Closeness, AMissedKeyIsSeen) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const Problem problem = small().dtype(dtype).build();
    Problem other = small().dtype(dtype).build();
    other.matrix.kv_lens[2] = 19;
    EXPECT_FALSE(close_to_reference(rounded(other), problem)) << to_string(dtype);
  }
}

TEST(Closeness, FloatOutputsAreHeldToFloatPrecision) {
  const Problem problem = small().dtype(DType::f32).build();
  Output output = rounded(problem);
  output.out[5] += 1e-5;
  EXPECT_FALSE(close_to_reference(output, problem));
  output = rounded(problem);
  output.lse[0] += 1e-4;
  EXPECT_FALSE(close_to_reference(output, problem));
}

TEST(Closeness, EmptyRowsAreExact) {
  const Problem problem = small().build();
  Output output = rounded(problem);
  const std::size_t empty_row = 2 * 4;
  ASSERT_EQ(output.lse[empty_row], -kInf);
  output.lse[empty_row] = -1e30;
  EXPECT_FALSE(close_to_reference(output, problem)) << "a finite sentinel is not -inf";
  output = rounded(problem);
  output.out[empty_row * 16] = 1e-30;
  EXPECT_FALSE(close_to_reference(output, problem));
  output.out[empty_row * 16] = kNan;
  EXPECT_FALSE(close_to_reference(output, problem));
}

}  // namespace
}  // namespace trencadis::testing
