// H1-H2: any group size, and head dims that are right or refused by name.
#include <fmt/format.h>

#include <algorithm>

#include "failure_cases/case.h"

namespace trencadis::testing {
namespace {

class HeadGroups : public ::testing::TestWithParam<int> {};

TEST_P(HeadGroups, H1EveryGroupSize) {
  const int group = GetParam();
  for (const int dim : {64, 128, 256}) {
    for (const int kv_heads : {1, 2, 3}) {
      for (const auto& lengths : {std::vector<Lengths>{{1, 19}, {1, 40}}, {{3, 19}}}) {
        const Problem problem = ProblemBuilder()
                                    .heads(group * kv_heads, kv_heads)
                                    .dims(dim)
                                    .lengths(lengths)
                                    .causal()
                                    .seed(static_cast<std::uint64_t>(group))
                                    .build();
        ASSERT_TRUE(close_to_reference(run_engine(problem), problem))
            << "D " << dim << ", H_kv " << kv_heads << ", l_q " << lengths[0].q;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(FailureCases, HeadGroups,
                         ::testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 20, 24, 32, 40, 64,
                                           128),
                         [](const auto& test) { return fmt::format("g{}", test.param); });

/// A few dims each, so that kernels are compiled side by side where the backend has to.
class HeadDims : public ::testing::TestWithParam<int> {
 public:
  static constexpr int kStep = 8, kDims = 4;
};

TEST_P(HeadDims, H2AreRightOrRefusedWithTheSupportedOnes) {
  for (int dim = GetParam(); dim < std::min(GetParam() + kDims * kStep, 520); dim += kStep) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const Problem problem =
          ProblemBuilder().heads(2, 1).dims(dim).lengths({{1, 37}, {9, 20}}).dtype(dtype).build();
      try {
        ASSERT_TRUE(close_to_reference(run_engine(problem), problem)) << "D " << dim;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::not_supported);
        EXPECT_NE(std::string_view(error.what()).find("supported"), std::string_view::npos)
            << error.what();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(FailureCases, HeadDims,
                         ::testing::Range(16, 513, HeadDims::kDims* HeadDims::kStep),
                         [](const auto& test) { return fmt::format("from{}", test.param); });

}  // namespace
}  // namespace trencadis::testing
