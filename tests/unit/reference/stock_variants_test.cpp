// The oracle's own stock variants, against values derived by hand.
#include "backends/reference/stock_variants.h"

#include <gmock/gmock.h>

#include <cmath>

#include "support/expect_error.h"

namespace trencadis::reference {
namespace {

using ::testing::ElementsAre;
using testing::expect_error;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Variant stock(std::string functor, std::vector<ExtraTensor> tensors,
              std::vector<ExtraScalar> scalars = {}) {
  Variant variant;
  variant.functor = std::move(functor);
  variant.tensors = std::move(tensors);
  variant.scalars = std::move(scalars);
  return variant;
}

At at(std::int64_t row, std::int64_t key, std::int64_t l_q, std::int64_t l_kv) {
  At result;
  result.l_q = l_q;
  result.l_kv = l_kv;
  result.row = result.token = row;
  result.key = key;
  result.qo_head = result.kv_head = 0;
  return result;
}

TEST(StockVariants, ComponentsOfAChain) {
  EXPECT_THAT(components("Chain<>"), IsEmpty());
  EXPECT_THAT(components("Chain<Rope, SoftCap>"), ElementsAre("Rope", "SoftCap"));
  EXPECT_THAT(components("SoftCap"), ElementsAre("SoftCap"));
}

TEST(StockVariants, WhatIsNotStockIsRefusedInWords) {
  EXPECT_EQ(unsupported_reason(stock("Chain<SoftCap>", {})), "");
  EXPECT_THAT(unsupported_reason(stock("Chain<Softcap>", {})), HasSubstr("'Softcap'"));
  Variant custom = stock("Mine", {});
  custom.source = "struct Mine {};";
  EXPECT_THAT(unsupported_reason(custom), HasSubstr("C++ source"));
  expect_error(ErrorKind::invalid_argument, {"no scalar 'soft_cap'"},
               [] { stock_hooks(stock("SoftCap", {}), {}); });
}

TEST(StockVariants, SoftCapThenAlibi) {
  const float slopes[] = {0.5f};
  const void* tensors[] = {slopes};
  const Hooks hooks = stock_hooks(
      stock("Chain<SoftCap, Alibi>", {{"alibi_slopes", DType::f32}}, {{"soft_cap", 30.0}}),
      tensors);
  // Row 0 of 2 over 5 keys is at position 3; key 1 lies 2 before it.
  EXPECT_DOUBLE_EQ(hooks.logit(-3000.0, at(0, 1, 2, 5)), -30.0 - 1.0);
  EXPECT_DOUBLE_EQ(hooks.logit(15.0, at(0, 3, 2, 5)), 30.0 * std::tanh(0.5));
}

TEST(StockVariants, RunScalarsReplaceTheDeclaredOnes) {
  const double scalars[] = {-1.0};
  const Hooks hooks = stock_hooks(stock("Sigmoid", {}, {{"sigmoid_bias", 5.0}}), {}, scalars);
  EXPECT_DOUBLE_EQ(hooks.logit(1.0, at(0, 0, 1, 1)), 0.5);
}

TEST(StockVariants, PackedMaskStartsEachRequestAtItsByte) {
  const std::uint8_t bits[] = {0xff, 0b00010000};
  const std::int64_t indptr[] = {0, 1};
  const void* tensors[] = {bits, indptr};
  const Hooks hooks = stock_hooks(
      stock("PackedMask", {{"packed_mask", DType::u8}, {"mask_indptr", DType::i64}}), tensors);
  At where = at(1, 1, 2, 3);
  where.request = 1;
  EXPECT_TRUE(hooks.mask(where)) << "bit 1 * 3 + 1";
  where.key = 2;
  EXPECT_FALSE(hooks.mask(where));
}

TEST(StockVariants, PrefixLmAndDocumentsAreAnded) {
  const std::int32_t prefix[] = {2}, q_documents[] = {7}, kv_documents[] = {7, 8, 7, 7};
  const std::int64_t indptr[] = {0};
  const void* tensors[] = {prefix, q_documents, kv_documents, indptr};
  const Hooks hooks =
      stock_hooks(stock("Chain<PrefixLm, DocumentMask>", {{"prefix_lens", DType::i32},
                                                          {"q_documents", DType::i32},
                                                          {"kv_documents", DType::i32},
                                                          {"kv_document_indptr", DType::i64}}),
                  tensors);
  // l_q = 4 rows would make row 0 position 0: key 0 is in the prefix and in the document.
  EXPECT_TRUE(hooks.mask(at(0, 0, 4, 4)));
  EXPECT_FALSE(hooks.mask(at(0, 1, 4, 4))) << "another document";
  EXPECT_FALSE(hooks.mask(at(0, 2, 4, 4))) << "behind the prefix and in the future";
}

Hooks rope(bool interleaved, const float* inv_freq) {
  static const void* tensors[1];
  tensors[0] = inv_freq;
  return stock_hooks(stock("Rope", {{"rope_inv_freq", DType::f32}},
                           {{"rope_dim", 4.0}, {"rope_interleaved", interleaved ? 1.0 : 0.0}}),
                     tensors);
}

TEST(StockVariants, RopeTurnsPairsByPositionTimesFrequency) {
  const float inv_freq[] = {1.0f, 0.25f};
  std::vector<double> half{1, 0, 0, 2, 9}, pairs{1, 0, 0, 2, 9};
  rope(false, inv_freq).key(half, at(-1, 3, 1, 4));
  rope(true, inv_freq).key(pairs, at(-1, 3, 1, 4));
  // Rotate-half pairs (0, 2) and (1, 3); adjacent pairs (0, 1) and (2, 3). The fifth lane stays.
  EXPECT_THAT(
      half, ElementsAre(std::cos(3.0), -2 * std::sin(0.75), std::sin(3.0), 2 * std::cos(0.75), 9));
  EXPECT_THAT(
      pairs, ElementsAre(std::cos(3.0), std::sin(3.0), -2 * std::sin(0.75), 2 * std::cos(0.75), 9));
}

TEST(StockVariants, RopeScoresDependOnTheDistanceAlone) {
  const float inv_freq[] = {1.0f, 0.1f};
  for (const bool interleaved : {false, true}) {
    const Hooks hooks = rope(interleaved, inv_freq);
    const auto score = [&](std::int64_t position, std::int64_t key) {
      std::vector<double> q{1, 2, 3, 4}, k{0.5, -1, 2, 0.25};
      hooks.query(q, at(0, -1, 1, position + 1));
      hooks.key(k, at(-1, key, 1, position + 1));
      double dot = 0;
      for (std::size_t d = 0; d < 4; ++d) dot += q[d] * k[d];
      return dot;
    };
    EXPECT_NEAR(score(10, 4), score(1000, 994), 1e-10);
    EXPECT_NE(score(10, 4), score(10, 5));
  }
}

TEST(StockVariants, RopeTakesExplicitPositions) {
  const float inv_freq[] = {1.0f};
  const std::int32_t q_positions[] = {5}, kv_positions[] = {0, 0, 2};
  const std::int64_t indptr[] = {1};
  const void* tensors[] = {inv_freq, q_positions, kv_positions, indptr};
  const Hooks hooks = stock_hooks(stock("Rope",
                                        {{"rope_inv_freq", DType::f32},
                                         {"q_positions", DType::i32},
                                         {"kv_positions", DType::i32},
                                         {"kv_position_indptr", DType::i64}},
                                        {{"rope_dim", 2.0}, {"rope_interleaved", 0.0}}),
                                  tensors);
  std::vector<double> q{1, 0}, k{1, 0};
  hooks.query(q, at(0, -1, 1, 2));
  hooks.key(k, at(-1, 1, 1, 2));
  EXPECT_DOUBLE_EQ(q[0], std::cos(5.0));
  EXPECT_DOUBLE_EQ(k[0], std::cos(2.0));
}

}  // namespace
}  // namespace trencadis::reference
