// Every stock variant, run by the engine against the float64 reference, which has its own code for
// each functor.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "support/compare.h"

namespace trencadis::testing {
namespace {

using variants::Rope;

struct StockCase {
  std::string name;
  Variant variant;
};

std::vector<StockCase> stock_cases() {
  return {
      {"plain", variants::softmax()},
      {"causal", variants::softmax({.causal = true})},
      {"left_window", variants::softmax({.causal = true, .window_left = 17})},
      {"both_windows", variants::softmax({.window_left = 9, .window_right = 4})},
      {"soft_cap", variants::softmax({.soft_cap = 1.5})},
      {"alibi", variants::softmax({.causal = true, .alibi = true})},
      {"packed_mask", variants::softmax({.custom_mask = true})},
      {"prefix_lm", variants::softmax({.prefix_lm = true})},
      {"documents", variants::softmax({.causal = true, .document_mask = true})},
      {"sinks", variants::softmax({.causal = true, .sinks = true})},
      {"rope", variants::softmax({.causal = true, .rope = Rope{}})},
      {"rope_interleaved", variants::softmax({.rope = Rope{.interleaved = true}})},
      {"rope_partial", variants::softmax({.rope = Rope{.rotary_dim = 24}})},
      {"rope_partial_interleaved",
       variants::softmax({.rope = Rope{.interleaved = true, .rotary_dim = 24}})},
      {"rope_positions", variants::softmax({.rope = Rope{.explicit_positions = true}})},
      {"everything", variants::softmax({.window_left = 60,
                                        .soft_cap = 2.0,
                                        .alibi = true,
                                        .custom_mask = true,
                                        .prefix_lm = true,
                                        .document_mask = true,
                                        .sinks = true,
                                        .rope = Rope{.rotary_dim = 32}})},
      {"sigmoid", variants::sigmoid({.bias = -3.0})},
      {"sigmoid_causal_window", variants::sigmoid({.causal = true, .window_left = 40})},
  };
}

class EngineStockTest : public ::testing::TestWithParam<StockCase> {
 protected:
  ProblemBuilder problem() const {
    ProblemBuilder builder;
    builder.heads(6, 2).dims(64, 40).page_size(8).variant(GetParam().variant).query_scale(3.0);
    return builder;
  }
  void expect_right(const Problem& problem) const {
    EXPECT_TRUE(close_to_reference(run_engine(problem), problem));
  }
};

TEST_P(EngineStockTest, DecodeAndPrefillInOneBatch) {
  expect_right(problem()
                   .dtype(DType::f32)
                   .lengths({{1, 333}, {70, 129}, {1, 1}, {3, 40}, {0, 9}, {2, 0}, {30, 11}})
                   .build());
}

TEST_P(EngineStockTest, SplitKv) {
  PlanOptions split;
  split.split = SplitMode::fixed;
  split.fixed_split_tokens = 64;
  expect_right(
      problem().dtype(DType::f32).lengths({{1, 500}, {20, 300}}).plan(split).seed(2).build());
}

TEST_P(EngineStockTest, HalfPrecisionStorage) {
  for (DType dtype : {DType::bf16, DType::f16})
    expect_right(problem().dtype(dtype).lengths({{1, 200}, {33, 90}}).seed(3).build());
}

INSTANTIATE_TEST_SUITE_P(Stock, EngineStockTest, ::testing::ValuesIn(stock_cases()),
                         [](const auto& stock) { return stock.param.name; });

}  // namespace
}  // namespace trencadis::testing
