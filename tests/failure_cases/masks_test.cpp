// M1-M5: masks, caps, sinks, and hooks that hide keys.
#include "failure_cases/case.h"

namespace trencadis::testing {
namespace {

/// q = 0, so that visible keys weigh the same and the LSE counts them.
ProblemBuilder uniform(std::vector<Lengths> lengths) {
  ProblemBuilder builder;
  builder.heads(1, 1).dims(64).lengths(std::move(lengths)).dtype(DType::f32).query_scale(0.0);
  return builder;
}

TEST(FailureCases, M1CausalIsAlignedBottomRight) {
  const Problem wide = uniform({{2, 3}}).causal().build();
  set_values(wide, [](auto, std::int64_t j) { return static_cast<double>(1 << j); });
  const Output rows = run_engine(wide);
  EXPECT_FLOAT_EQ(static_cast<float>(rows.out[0]), (1 + 2) / 2.0f);
  EXPECT_FLOAT_EQ(static_cast<float>(rows.out[64]), (1 + 2 + 4) / 3.0f);

  const Problem tall = uniform({{3, 2}}).causal().build();
  set_values(tall, [](auto, std::int64_t j) { return static_cast<double>(1 << j); });
  const Output output = run_engine(tall);
  EXPECT_TRUE(is_empty_row(output, tall, 0, 0));
  EXPECT_EQ(output.out[64], 1.0);
  EXPECT_FLOAT_EQ(static_cast<float>(output.out[128]), 1.5f);
}

TEST(FailureCases, M2WindowsAsWideAsTheSequenceAndAsNarrowAsARow) {
  constexpr std::int64_t kTokens = 4096;
  const auto with_window = [](std::int64_t left) {
    Variant variant;
    variant.bounds = {left, 0};
    return ProblemBuilder()
        .heads(1, 1)
        .dims(64)
        .lengths({{kTokens, kTokens}})
        .variant(variant)
        .dtype(DType::f32)
        .build();
  };
  const Output causal = run_engine(with_window(-1));
  for (const std::int64_t left : {kTokens - 1, kTokens}) {
    const Output output = run_engine(with_window(left));
    for (std::size_t i = 0; i < causal.out.size(); ++i) {
      ASSERT_NEAR(output.out[i], causal.out[i], 1e-6) << "left " << left << ", element " << i;
    }
  }
  const Problem narrow = with_window(0);
  const Output output = run_engine(narrow);
  const TensorView v = reference::as_blocks(narrow.v, KvLayout::nhd, narrow.matrix.block_cols);
  for (std::int64_t i = 0; i < kTokens; ++i) {
    const std::int64_t page = narrow.matrix.indices[static_cast<std::size_t>(i / 16)];
    for (std::int64_t d = 0; d < 64; ++d) {
      ASSERT_EQ(output.out[static_cast<std::size_t>(i * 64 + d)], get(v, {page, i % 16, 0, d}));
    }
  }
}

// The capped logit of the one visible key is far below what a sentinel of -1e4 or a mask before the
// cap would leave for the hidden one.
TEST(FailureCases, M3TheMaskComesAfterTheCap) {
  const std::vector<std::uint8_t> bits{0b01};
  const Problem problem = uniform({{1, 2}})
                              .variant(variants::softmax({.soft_cap = 30.0, .custom_mask = true}))
                              .tensor("packed_mask", HostTensor::from(DType::u8, bits))
                              .sm_scale(1.0)
                              .build();
  set_queries(problem, 1.0);
  set_keys(problem, [](auto, auto) { return -3000.0 / 64; });
  set_values(problem, [](auto, std::int64_t j) { return j == 0 ? 1.0 : 1000.0; });
  const Output output = run_engine(problem);
  for (const double x : output.out) EXPECT_EQ(x, 1.0);
  EXPECT_FLOAT_EQ(static_cast<float>(output.lse[0]), -30.0f);
}

constexpr const char* kHideOdd = R"(
struct HideOdd {
  static constexpr HookSet hooks = kLogitsMask;
  template <class P>
  TRENCADIS_FN static bool logits_mask(const P&, const LogitCoord& at) {
    return at.kv_pos % 2 == 0;
  }
};
)";

/// Sees the even keys in even heads and requests, nothing elsewhere.
constexpr const char* kHideByHeadAndRequest = R"(
struct HideByHeadAndRequest {
  static constexpr HookSet hooks = kLogitsMask;
  template <class P>
  TRENCADIS_FN static bool logits_mask(const P&, const LogitCoord& at) {
    return at.qo_head % 2 == 0 && at.request % 2 == 0 && at.kv_pos % 2 == 0;
  }
};
)";

TEST(FailureCases, M4AHookRunsOnEveryTile) {
  for (const std::int64_t l_q : {1, 40}) {
    const Problem problem = ProblemBuilder()
                                .heads(4, 2)
                                .dims(64)
                                .lengths({{l_q, 1024}})
                                .variant(variants::custom("HideOdd", kHideOdd))
                                .dtype(DType::f32)
                                .build();
    set_values(problem, [](auto, std::int64_t j) { return static_cast<double>(j % 2); });
    for (const double x : run_engine(problem).out) ASSERT_EQ(x, 0.0);
  }
}

TEST(FailureCases, M4AHookHidesByHeadAndByRequest) {
  const Problem problem =
      ProblemBuilder()
          .heads(4, 2)
          .dims(64)
          .lengths({{2, 200}, {1, 90}, {20, 65}})
          .variant(variants::custom("HideByHeadAndRequest", kHideByHeadAndRequest))
          .hooks({.mask =
                      [](const reference::At& at) {
                        return at.qo_head % 2 == 0 && at.request % 2 == 0 && at.key % 2 == 0;
                      }})
          .build();
  EXPECT_TRUE(close_to_reference(run_engine(problem), problem));
}

Problem with_sinks(std::int64_t keys, const std::vector<double>& sinks, PlanOptions options) {
  const int heads = static_cast<int>(sinks.size());
  return ProblemBuilder()
      .heads(heads, 1)
      .dims(64)
      .lengths({{1, keys}})
      .dtype(DType::f32)
      .query_scale(0.0)
      .variant(variants::softmax({.sinks = true}))
      .plan(options)
      .tensor("sinks", HostTensor::from(DType::f32, sinks))
      .build();
}

TEST(FailureCases, M5ASinkIsAddedOnceForAnyNumberOfSplits) {
  constexpr std::int64_t kKeys = 1024;
  for (const std::int64_t splits : {1, 2, 4, 8}) {
    const Problem problem = with_sinks(kKeys, {0.0}, split_every(kKeys / splits));
    set_values(problem, [](auto, auto) { return 1.0; });
    Attention attention = planned(problem);
    EXPECT_EQ(attention.current_plan().stats().partial_slots, splits == 1 ? 0 : splits);
    const Output output = run(attention, problem);
    for (const double x : output.out) ASSERT_NEAR(x, kKeys / (kKeys + 1.0), 1e-6) << splits;
    EXPECT_NEAR(output.lse[0], std::log(1024.0), 1e-6) << "the LSE is of the keys alone";
  }
  const Problem none = with_sinks(0, {0.0}, {});
  EXPECT_TRUE(is_empty_row(run_engine(none), none, 0, 0));
}

TEST(FailureCases, M5SinksDifferByHeadAndACapLeavesThemAlone) {
  const std::vector<double> sinks{-2.0, 0.0, 3.0, 60.0};
  for (const double cap : {0.0, 5.0}) {
    const Problem problem = ProblemBuilder()
                                .heads(4, 2)
                                .dims(64)
                                .lengths({{1, 300}, {5, 9}, {1, 0}})
                                .variant(variants::softmax({.soft_cap = cap, .sinks = true}))
                                .plan(split_every(64))
                                .tensor("sinks", HostTensor::from(DType::f32, sinks))
                                .build();
    EXPECT_TRUE(close_to_reference(run_engine(problem), problem)) << "cap " << cap;
  }
}

}  // namespace
}  // namespace trencadis::testing
