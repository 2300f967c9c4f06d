#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>

#include "unit/engine/small_problem.h"

namespace trencadis::engine_test {
namespace {

using testing::HasSubstr;

TEST(Attention, RunsTheSamePlanForEveryLayer) {
  SmallProblem p;
  Attention attention(p.spec, p.config);
  p.plan(attention);
  attention.run(p.args);
  const std::vector<float> first = p.out;
  for (float& key : p.k) key = -key;
  attention.run(p.args);
  EXPECT_NE(p.out, first);
  for (float& key : p.k) key = -key;
  attention.run(p.args);
  EXPECT_EQ(p.out, first);
}

TEST(Attention, AgreesWithTheReferenceBackend) {
  SmallProblem p;
  Attention engine(p.spec, p.config);
  p.plan(engine);
  engine.run(p.args);
  const std::vector<float> out = p.out, lse = p.lse;

  p.config.backend = BackendKind::reference;
  Attention oracle(p.spec, p.config);
  p.plan(oracle);
  oracle.run(p.args);
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], p.out[i], 2e-6) << i;
  for (std::size_t i = 0; i < lse.size(); ++i) EXPECT_NEAR(lse[i], p.lse[i], 2e-6) << i;
}

TEST(Attention, ASingleRequestNeedsNoTable) {
  SmallProblem p;
  p.spec.variant = variants::softmax({.causal = true});
  p.args.q = p.args.q.slice(0, 0, 2);
  p.args.out = p.args.out.slice(0, 0, 2);
  p.args.lse = p.args.lse.slice(0, 0, 2);
  p.args.k = TensorView(p.k.data(), DType::f32, {12, 1, SmallProblem::kDim});
  p.args.v = TensorView(p.v.data(), DType::f32, {12, 1, SmallProblem::kDim});
  for (const std::int64_t keys : {11, 0, 1}) {
    Attention attention(p.spec, p.config);
    attention.plan_single(2, keys);
    attention.run(p.args);
    const std::vector<float> out = p.out;

    const std::vector<std::int32_t> qo_indptr{0, 2}, lens{static_cast<std::int32_t>(keys)},
        indptr{0, static_cast<std::int32_t>((keys + 3) / 4)};
    attention.plan(qo_indptr, indptr, {}, lens);
    attention.run(p.args);
    EXPECT_EQ(p.out, out) << keys;
    EXPECT_EQ(attention.current_plan().stats().requests, 1);
  }
  Attention attention(p.spec, p.config);
  EXPECT_THAT(error_of([&] { attention.plan_single(1, -2); }).what(),
              HasSubstr("num_kv_tokens is -2"));
}

TEST(Attention, ARefusedPlanLeavesThePreviousOneInForce) {
  SmallProblem p;
  Attention attention(p.spec, p.config);
  p.plan(attention);
  attention.run(p.args);
  const std::vector<float> before = p.out;

  const std::vector<std::int32_t> bad_lens{6, 99};
  EXPECT_EQ(
      error_of([&] { attention.plan(p.qo_indptr, p.kv_indptr, p.kv_indices, bad_lens); }).kind(),
      ErrorKind::invalid_argument);
  const std::vector<std::int32_t> bad_pages{2, -1, 1};
  EXPECT_THAT(
      error_of([&] { attention.plan(p.qo_indptr, p.kv_indptr, bad_pages, p.kv_lens); }).what(),
      HasSubstr("kv_indices[1] is -1"));

  std::fill(p.out.begin(), p.out.end(), -7.0f);
  attention.run(p.args);
  EXPECT_EQ(p.out, before);
}

TEST(Attention, PlansAlternateWithoutDisturbingEachOther) {
  SmallProblem p;
  Attention attention(p.spec, p.config);
  p.plan(attention);
  attention.run(p.args);
  const std::vector<float> before = p.out;
  const std::vector<std::int32_t> shorter{5, 1};
  attention.plan(p.qo_indptr, p.kv_indptr, p.kv_indices, shorter);
  attention.run(p.args);
  EXPECT_NE(p.out, before);
  p.plan(attention);
  attention.run(p.args);
  EXPECT_EQ(p.out, before);
}

TEST(Attention, SurvivesAMove) {
  SmallProblem p;
  Attention first(p.spec, p.config);
  p.plan(first);
  Attention second = std::move(first);
  second.run(p.args);
  EXPECT_TRUE(std::isfinite(p.out[0]));
}

TEST(Attention, WantsAPlanBeforeItRuns) {
  SmallProblem p;
  Attention attention(p.spec, p.config);
  EXPECT_THAT(error_of([&] { attention.run(p.args); }).what(), HasSubstr("before plan()"));
  EXPECT_THAT(error_of([&] { attention.current_plan(); }).what(), HasSubstr("call plan() first"));
}

TEST(Attention, TakesACallersWorkspaceOfExactlyTheBoundAndRefusesOneByteLess) {
  SmallProblem p;
  p.config.limits = {8, 64, 64, 256};
  const std::int64_t bytes = Attention::workspace_bytes(p.spec, p.config);
  const std::unique_ptr<std::byte, void (*)(void*)> memory(
      static_cast<std::byte*>(
          std::aligned_alloc(64, static_cast<std::size_t>(bytes + 63) / 64 * 64)),
      std::free);
  p.config.workspace = TensorView(memory.get(), DType::u8, {bytes});
  Attention attention(p.spec, p.config);
  p.plan(attention);
  attention.run(p.args);

  p.config.workspace = TensorView(memory.get(), DType::u8, {bytes - 1});
  const Error error = error_of([&] { Attention(p.spec, p.config); });
  EXPECT_EQ(error.kind(), ErrorKind::out_of_capacity);
  EXPECT_THAT(error.what(), HasSubstr(std::to_string(bytes) + " bytes are needed"));
  EXPECT_THAT(error.what(), HasSubstr(std::to_string(bytes - 1) + " are available"));
}

TEST(Attention, RefusesWhatNoBackendRunsWithEachReason) {
  SmallProblem p;
  p.spec.head_dim_qk = 1 << 20;
  p.config.backend = BackendKind::automatic;
  const Error error = error_of([&] { Attention(p.spec, p.config); });
  EXPECT_EQ(error.kind(), ErrorKind::not_supported);
  EXPECT_THAT(error.what(), HasSubstr("cuda: "));
  EXPECT_THAT(error.what(), HasSubstr("cpu: a head dim is 1048576"));
}

struct BadConfig {
  const char* text;
  void (*spoil)(SmallProblem&);
};

class RefusedConfig : public testing::TestWithParam<BadConfig> {};

TEST_P(RefusedConfig, IsNamed) {
  SmallProblem p;
  GetParam().spoil(p);
  EXPECT_THAT(error_of([&] { Attention(p.spec, p.config); }).what(), HasSubstr(GetParam().text));
}

INSTANTIATE_TEST_SUITE_P(
    Attention, RefusedConfig,
    testing::Values(
        BadConfig{"num_kv_heads is 0", [](SmallProblem& p) { p.config.heads.kv = 0; }},
        BadConfig{
            "num_qo_heads is 3, expected a positive multiple of num_kv_heads = 2, at most 65536",
            [](SmallProblem& p) {
              p.config.heads = {3, 2};
            }},
        BadConfig{"page_size is 0", [](SmallProblem& p) { p.config.page_size = 0; }},
        BadConfig{"head_dim_qk is -8", [](SmallProblem& p) { p.spec.head_dim_qk = -8; }},
        BadConfig{"dtype_kv is int32", [](SmallProblem& p) { p.spec.dtype_kv = DType::i32; }},
        BadConfig{
            "sm_scale is nan",
            [](SmallProblem& p) { p.config.sm_scale = std::numeric_limits<double>::quiet_NaN(); }},
        BadConfig{"bounds.left is -2", [](SmallProblem& p) { p.spec.variant.bounds.left = -2; }},
        BadConfig{"limits.max_qo_tokens is 4611686018427387904, expected 0 (no bound) to",
                  [](SmallProblem& p) { p.config.limits.max_qo_tokens = std::int64_t{1} << 62; }},
        BadConfig{"the limits ask for a workspace of more than",
                  [](SmallProblem& p) {
                    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
                    p.config.limits = {kMost, kMost, kMost, kMost};
                    p.config.plan.split = SplitMode::fixed;
                    p.config.plan.fixed_split_tokens = 1;
                  }},
        BadConfig{
            "workspace is uint8[64] strides [1] on cuda:0, expected a tensor on cpu",
            [](SmallProblem& p) {
              alignas(64) static std::byte memory[64];
              p.config.workspace = TensorView(memory, DType::u8, {64}, Device{DeviceKind::cuda, 0});
            }},
        BadConfig{"num_threads is -1", [](SmallProblem& p) { p.config.num_threads = -1; }},
        BadConfig{"sinks join a softmax denominator",
                  [](SmallProblem& p) {
                    p.spec.variant.use_softmax = false;
                    p.spec.variant.sinks = true;
                  }},
        BadConfig{"workspace is float32", [](SmallProblem& p) {
                    p.config.workspace = TensorView(p.q.data(), DType::f32, {16});
                  }}));

}  // namespace
}  // namespace trencadis::engine_test
