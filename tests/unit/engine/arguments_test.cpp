// Every tensor of run() that is wrong is named, with what came and what was expected, and nothing
// is written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "unit/engine/small_problem.h"

namespace trencadis::engine_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct BadCall {
  ErrorKind kind;
  const char* text;
  void (*spoil)(SmallProblem&);
};

class RefusedCall : public testing::TestWithParam<BadCall> {};

TEST_P(RefusedCall, NamesTheTensorAndWritesNothing) {
  SmallProblem p;
  Attention attention(p.spec, p.config);
  p.plan(attention);
  GetParam().spoil(p);
  const std::vector<float> out = p.out;
  const Error error = error_of([&] { attention.run(p.args); });
  EXPECT_EQ(error.kind(), GetParam().kind);
  EXPECT_THAT(error.what(), HasSubstr(GetParam().text));
  EXPECT_EQ(p.out, out);
}

TensorView floats(std::vector<float>& data, std::initializer_list<std::int64_t> shape) {
  return TensorView(data.data(), DType::f32, shape);
}

TensorView with_strides(const TensorView& t, std::initializer_list<std::int64_t> strides) {
  return TensorView(t.data(), t.dtype(), t.shape(), std::span(strides.begin(), strides.size()));
}

constexpr auto kInvalid = ErrorKind::invalid_argument;

INSTANTIATE_TEST_SUITE_P(
    Run, RefusedCall,
    testing::Values(BadCall{kInvalid, "q is missing", [](SmallProblem& p) { p.args.q = {}; }},
                    BadCall{kInvalid, "expected qo_indptr[-1] = 3 in dimension 0",
                            [](SmallProblem& p) { p.args.q = p.args.q.slice(0, 0, 2); }},
                    BadCall{kInvalid, "expected num_qo_heads = 2 in dimension 1",
                            [](SmallProblem& p) {
                              p.args.q = floats(p.q, {3, 1, 16});
                            }},
                    BadCall{kInvalid, "expected head_dim_qk = 16 in dimension 2",
                            [](SmallProblem& p) {
                              p.args.q = floats(p.q, {3, 2, 8});
                            }},
                    BadCall{ErrorKind::type_mismatch, "expected dtype float32",
                            [](SmallProblem& p) {
                              p.args.q = TensorView(p.q.data(), DType::f16, {3, 2, 16});
                            }},
                    BadCall{kInvalid, "expected stride 1 in the last dimension",
                            [](SmallProblem& p) {
                              p.args.q = with_strides(p.args.q, {2, 1, 3});
                            }},
                    BadCall{kInvalid, "k is float32[3, 2, 2, 16]",
                            [](SmallProblem& p) {
                              p.args.k = floats(p.k, {3, 2, 2, 16});
                            }},
                    BadCall{kInvalid, "expected page_size = 4 in dimension 1",
                            [](SmallProblem& p) {
                              p.args.k = floats(p.k, {6, 2, 1, 16});
                            }},
                    BadCall{kInvalid, "expected at least 3 pages",
                            [](SmallProblem& p) { p.args.v = p.args.v.slice(0, 0, 2); }},
                    BadCall{kInvalid, "expected at least 12 tokens",
                            [](SmallProblem& p) {
                              p.args.k = floats(p.k, {9, 1, 16});
                            }},
                    BadCall{kInvalid, "out is missing", [](SmallProblem& p) { p.args.out = {}; }},
                    BadCall{kInvalid, "lse is float32[3, 1]",
                            [](SmallProblem& p) {
                              p.args.lse = floats(p.lse, {3, 1});
                            }},
                    BadCall{kInvalid, "has no sinks",
                            [](SmallProblem& p) { p.args.sinks = floats(p.lse, {2}); }},
                    BadCall{kInvalid, "scalars has 1 entries, expected none or 0",
                            [](SmallProblem& p) {
                              static constexpr double kCap[] = {30.0};
                              p.args.scalars = kCap;
                            }},
                    BadCall{ErrorKind::type_mismatch, "expected a tensor on cpu",
                            [](SmallProblem& p) {
                              p.args.out = TensorView(p.out.data(), DType::f32, {3, 2, 16},
                                                      Device{DeviceKind::cuda, 0});
                            }}));

TEST(Run, TakesAPoolOfTokensAsWellAsOneOfPages) {
  SmallProblem p;
  Attention attention(p.spec, p.config);
  p.plan(attention);
  attention.run(p.args);
  const std::vector<float> paged = p.out;
  // Request 0 reads pages 2 and 0, request 1 three tokens of page 1: the pool ends with page 2.
  p.args.k = floats(p.k, {12, 1, 16});
  p.args.v = floats(p.v, {12, 1, 16});
  attention.run(p.args);
  EXPECT_EQ(p.out, paged);
}

TEST(Run, WantsTheTensorsThatTheVariantDeclares) {
  SmallProblem p;
  p.spec.variant = variants::softmax({.alibi = true, .sinks = true});
  Attention attention(p.spec, p.config);
  p.plan(attention);
  EXPECT_THAT(error_of([&] { attention.run(p.args); }).what(), HasSubstr("sinks is missing"));
  std::vector<float> heads(2, 0.5f);
  p.args.sinks = floats(heads, {2});
  EXPECT_THAT(error_of([&] { attention.run(p.args); }).what(),
              HasSubstr("tensors has 0 entries, expected 1"));
  std::vector<std::int32_t> wrong(2, 1);
  const TensorView ints(wrong.data(), DType::i32, {2});
  p.args.tensors = {&ints, 1};
  EXPECT_THAT(error_of([&] { attention.run(p.args); }).what(),
              AllOf(HasSubstr("alibi_slopes is int32[2]"), HasSubstr("expected dtype float32")));
  const TensorView slopes = floats(heads, {2});
  p.args.tensors = {&slopes, 1};
  attention.run(p.args);
}

TEST(Run, WantsStockTensorsAsLongAsThePlanReads) {
  SmallProblem p;
  p.spec.variant = variants::softmax({.alibi = true, .custom_mask = true});
  Attention attention(p.spec, p.config);
  p.plan(attention);
  // Request 0: 1 row of 6 keys, a byte. Request 1: 2 rows of 3 keys, a byte.
  std::vector<float> slopes(2, 0.5f);
  std::vector<std::uint8_t> mask(2, 0xff);
  std::vector<std::int64_t> starts{0, 1};
  std::vector<TensorView> tensors{floats(slopes, {2}), TensorView(mask.data(), DType::u8, {2}),
                                  TensorView(starts.data(), DType::i64, {2})};
  p.args.tensors = tensors;
  attention.run(p.args);

  tensors[0] = floats(slopes, {1});
  EXPECT_THAT(error_of([&] { attention.run(p.args); }).what(),
              HasSubstr("alibi_slopes is float32[1]"));
  tensors[0] = floats(slopes, {2});
  starts[1] = 100'000'000;
  EXPECT_THAT(error_of([&] { attention.run(p.args); }).what(),
              HasSubstr("reads 1 elements from mask_indptr[1] = 100000000 on"));
  starts[1] = -1;
  EXPECT_THAT(error_of([&] { attention.run(p.args); }).what(),
              HasSubstr("packed_mask is uint8[2]"));
}

TEST(Run, ChecksTheValuesOfStockScalars) {
  SmallProblem p;
  p.spec.variant = variants::softmax({.soft_cap = 30.0});
  Attention attention(p.spec, p.config);
  p.plan(attention);
  for (const double bad : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()}) {
    p.args.scalars = {&bad, 1};
    EXPECT_THAT(error_of([&] { attention.run(p.args); }).what(), HasSubstr("soft_cap is")) << bad;
  }
}

TEST(Run, HasNoLseWithoutSoftmax) {
  SmallProblem p;
  p.spec.variant = variants::sigmoid();
  Attention attention(p.spec, p.config);
  p.plan(attention);
  EXPECT_EQ(error_of([&] { attention.run(p.args); }).kind(), ErrorKind::not_supported);
  p.args.lse = {};
  attention.run(p.args);
}

}  // namespace
}  // namespace trencadis::engine_test
