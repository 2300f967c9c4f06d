// variants::softmax, sigmoid, custom and rope_inv_freq: what they declare and what they refuse.
#include <gtest/gtest.h>
#include <trencadis/variant.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "support/expect_error.h"

namespace trencadis {
namespace {

using testing::expect_error;
using variants::Rope;
constexpr auto kInvalid = ErrorKind::invalid_argument;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(StockVariants, PlainSoftmaxReadsNothing) {
  const Variant plain = variants::softmax();
  EXPECT_EQ(plain, Variant{});
  EXPECT_EQ(plain.functor, "Chain<>");
}

TEST(StockVariants, EveryOptionInTheOrderOfComposition) {
  const Variant all = variants::softmax({.window_left = 5,
                                         .soft_cap = 30.0,
                                         .alibi = true,
                                         .custom_mask = true,
                                         .prefix_lm = true,
                                         .document_mask = true,
                                         .sinks = true,
                                         .rope = Rope{.interleaved = true, .rotary_dim = 32}});
  EXPECT_EQ(all.functor, "Chain<Rope, SoftCap, Alibi, PackedMask, PrefixLm, DocumentMask>");
  EXPECT_EQ(all.tensors, (std::vector<ExtraTensor>{{"rope_inv_freq", DType::f32},
                                                   {"alibi_slopes", DType::f32},
                                                   {"packed_mask", DType::u8},
                                                   {"mask_indptr", DType::i64},
                                                   {"prefix_lens", DType::i32},
                                                   {"q_documents", DType::i32},
                                                   {"kv_documents", DType::i32},
                                                   {"kv_document_indptr", DType::i64}}));
  EXPECT_EQ(all.scalars, (std::vector<ExtraScalar>{
                             {"rope_dim", 32}, {"rope_interleaved", 1}, {"soft_cap", 30}}));
  EXPECT_EQ(all.bounds, (MaskBounds{5, -1}));
  EXPECT_TRUE(all.sinks);
  EXPECT_TRUE(all.use_softmax);
}

TEST(StockVariants, ExplicitPositionsAreTensors) {
  const Variant rope = variants::softmax({.rope = Rope{.explicit_positions = true}});
  EXPECT_EQ(rope.tensors, (std::vector<ExtraTensor>{{"rope_inv_freq", DType::f32},
                                                    {"q_positions", DType::i32},
                                                    {"kv_positions", DType::i32},
                                                    {"kv_position_indptr", DType::i64}}));
  EXPECT_EQ(rope.scalars, (std::vector<ExtraScalar>{{"rope_dim", 0}, {"rope_interleaved", 0}}));
}

TEST(StockVariants, CausalIsARightBoundOfZero) {
  EXPECT_EQ(variants::softmax({.causal = true}).bounds, (MaskBounds{-1, 0}));
  EXPECT_EQ(variants::softmax({.causal = true, .window_left = 7, .window_right = 3}).bounds,
            (MaskBounds{7, 0}));
  EXPECT_EQ(variants::softmax({.window_left = 0, .window_right = 3}).bounds, (MaskBounds{0, 3}));
}

TEST(StockVariants, Sigmoid) {
  const Variant sigmoid = variants::sigmoid({.causal = true, .window_left = 3, .bias = -2.5});
  EXPECT_EQ(sigmoid.functor, "Chain<Sigmoid>");
  EXPECT_EQ(sigmoid.scalars, (std::vector<ExtraScalar>{{"sigmoid_bias", -2.5}}));
  EXPECT_EQ(sigmoid.bounds, (MaskBounds{3, 0}));
  EXPECT_FALSE(sigmoid.use_softmax);
}

TEST(StockVariants, RefuseBadOptions) {
  const auto refuse = [](std::vector<std::string> texts, variants::SoftmaxOptions options) {
    expect_error(kInvalid, {texts[0], texts[1]}, [&] { variants::softmax(options); });
  };
  refuse({"window_left", "-2"}, {.window_left = -2});
  refuse({"window_right", "-7"}, {.window_right = -7});
  refuse({"soft_cap", "-1"}, {.soft_cap = -1});
  refuse({"soft_cap", "nan"}, {.soft_cap = kNan});
  refuse({"soft_cap", "inf"}, {.soft_cap = std::numeric_limits<double>::infinity()});
  refuse({"prefix_lm with causal = true", "hides the prefix"}, {.causal = true, .prefix_lm = true});
  refuse({"prefix_lm", "window_right = 0"}, {.window_right = 0, .prefix_lm = true});
  refuse({"rotary_dim", "33"}, {.rope = Rope{.rotary_dim = 33}});
  refuse({"rotary_dim", "-2"}, {.rope = Rope{.rotary_dim = -2}});
  refuse({"theta", "0"}, {.rope = Rope{.theta = 0}});
  refuse({"scale", "nan"}, {.rope = Rope{.scale = kNan}});
  refuse({"low_freq_factor", "high_freq_factor = 4"},
         {.rope = Rope{.low_freq_factor = 4, .high_freq_factor = 4, .old_context_len = 8192}});
  refuse({"old_context_len", "0"}, {.rope = Rope{.low_freq_factor = 1, .high_freq_factor = 4}});
  expect_error(kInvalid, {"bias", "nan"}, [] { variants::sigmoid({.bias = kNan}); });
  expect_error(kInvalid, {"window_left", "-3"}, [] { variants::sigmoid({.window_left = -3}); });
}

TEST(CustomVariants, KeepWhatTheyAreGiven) {
  const Variant mine =
      variants::custom("Chain<SoftCap, Mine<3>>", "template <int> struct Mine {};",
                       {{"bias", DType::bf16}}, {{"soft_cap", 20}}, {.left = 3, .right = 0}, false);
  EXPECT_EQ(mine.functor, "Chain<SoftCap, Mine<3>>");
  EXPECT_EQ(mine.tensors, (std::vector<ExtraTensor>{{"bias", DType::bf16}}));
  EXPECT_EQ(mine.bounds, (MaskBounds{3, 0}));
  EXPECT_FALSE(mine.use_softmax);
}

TEST(CustomVariants, RefuseWhatIsNoName) {
  const std::string source = "struct Mine {};";
  for (const char* functor : {"", "Mine;", "Mine{}", "Chain<Mine", "Mine>", "Chain<,>", "int",
                              "decltype(0)", "Mine\n#include \"x\"", "__Mine", "1Mine", "Mine()"})
    expect_error(kInvalid, {"functor", functor}, [&] { variants::custom(functor, source); });
  for (const char* name : {"", "a b", "a;", "1a", "float", "_a", "a__b", "a\n", "load", "a,b", "é"})
    expect_error(kInvalid, {"tensor name", name}, [&] {
      variants::custom("Mine", source, {{name, DType::f32}});
    });
  expect_error(kInvalid, {"scalar name 'x'", "twice"}, [&] {
    variants::custom("Mine", source, {{"x", DType::f32}}, {{"x", 1}});
  });
  expect_error(kInvalid, {"scalar 'x'", "nan"}, [&] {
    variants::custom("Mine", source, {}, {{"x", kNan}});
  });
  expect_error(kInvalid, {"13 extra tensors", "at most 12"}, [&] {
    std::vector<ExtraTensor> tensors;
    for (int i = 0; i < 13; ++i) tensors.push_back({"t" + std::to_string(i), DType::f32});
    variants::custom("Mine", source, tensors);
  });
  expect_error(kInvalid, {"SoftCap", "stock"}, [&] { variants::custom("SoftCap", source); });
  expect_error(kInvalid, {"source is empty"}, [] { variants::custom("Mine", ""); });
  expect_error(kInvalid, {"bounds.left", "-5"},
               [&] { variants::custom("Mine", source, {}, {}, {.left = -5}); });
}

TEST(RopeFrequencies, FallGeometrically) {
  const std::vector<float> all = variants::rope_inv_freq({.theta = 1e4}, 8);
  EXPECT_EQ(all, (std::vector<float>{1.0f, 0.1f, 0.01f, 0.001f}));
  // Partial: the exponent runs over the rotary dims, not over the head.
  EXPECT_EQ(variants::rope_inv_freq({.rotary_dim = 4, .theta = 1e4}, 8),
            (std::vector<float>{1.0f, 0.01f}));
  EXPECT_EQ(variants::rope_inv_freq({.theta = 1e4, .scale = 4}, 4),
            (std::vector<float>{0.25f, 0.0025f}));
}

TEST(RopeFrequencies, Llama31) {
  const Rope rope{.theta = 5e5,
                  .scale = 8,
                  .low_freq_factor = 1,
                  .high_freq_factor = 4,
                  .old_context_len = 8192};
  const std::vector<float> scaled = variants::rope_inv_freq(rope, 128);
  ASSERT_EQ(scaled.size(), 64u);
  bool kept = false, blended = false, divided = false;
  for (int i = 0; i < 64; ++i) {
    const double frequency = std::pow(5e5, -i / 64.0);
    const double wavelength = 2 * std::numbers::pi / frequency;
    double expected = frequency;
    if (wavelength > 8192.0 / 1) {
      expected = frequency / 8;
      divided = true;
    } else if (wavelength > 8192.0 / 4) {
      const double smooth = (8192.0 / wavelength - 1) / (4.0 - 1.0);
      expected = (1 - smooth) * frequency / 8 + smooth * frequency;
      blended = true;
    } else {
      kept = true;
    }
    EXPECT_FLOAT_EQ(scaled[static_cast<std::size_t>(i)], static_cast<float>(expected)) << i;
  }
  EXPECT_TRUE(kept && blended && divided);
}

TEST(RopeFrequencies, RefuseDimsThatDoNotPair) {
  expect_error(kInvalid, {"rotary_dim", "7"}, [] { variants::rope_inv_freq({}, 7); });
  expect_error(kInvalid, {"rotary_dim is 16", "head_dim_qk = 8"},
               [] { variants::rope_inv_freq({.rotary_dim = 16}, 8); });
  expect_error(kInvalid, {"head_dim_qk is 0"}, [] { variants::rope_inv_freq({}, 0); });
}

}  // namespace
}  // namespace trencadis
