#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <trencadis/error.h>
#include <trencadis/spec_text.h>

namespace trencadis {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string error_of(std::string_view text) {
  try {
    parse_spec(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    return error.what();
  }
  ADD_FAILURE() << "no error for: " << text;
  return "";
}

TEST(SpecText, NothingIsTheDefaultSpec) {
  EXPECT_EQ(parse_spec(""), AttentionSpec{});
  EXPECT_EQ(parse_spec("{}"), AttentionSpec{});
}

TEST(SpecText, ShortAndLongFormsSayTheSame) {
  variants::SoftmaxOptions options;
  options.causal = true;
  options.window_left = 1023;
  options.soft_cap = 30.5;
  options.sinks = true;
  AttentionSpec expected;
  expected.head_dim_qk = 192;
  expected.head_dim_vo = 128;
  expected.dtype_q = expected.dtype_o = DType::f16;
  expected.dtype_kv = DType::f32;
  expected.lse_base = LseBase::two;
  expected.variant = variants::softmax(options);
  EXPECT_EQ(parse_spec("head_dim=192, head_dim_vo=128, dtype=f16, dtype_kv=f32, lse_base=two, "
                       "causal, window_left=1023, soft_cap=30.5, sinks"),
            expected);
  EXPECT_EQ(parse_spec(R"( {"head_dim": 192, "head_dim_vo": 128, "dtype": "f16",
    "dtype_kv": "float32", "lse_base": "two", "causal": true, "window_left": 1023,
    "soft_cap": 30.5, "sinks": true} )"),
            expected);
}

TEST(SpecText, EveryStockOptionReachesTheVariant) {
  variants::SoftmaxOptions options;
  options.alibi = true;
  options.custom_mask = true;
  options.prefix_lm = true;
  options.document_mask = true;
  options.rope = variants::Rope{.interleaved = true, .rotary_dim = 64, .explicit_positions = true};
  EXPECT_EQ(parse_spec("alibi,custom_mask,prefix_lm,document_mask,rope,rope_interleaved,"
                       "rope_dim=64,rope_positions")
                .variant,
            variants::softmax(options));
  EXPECT_EQ(parse_spec("sigmoid,causal,sigmoid_bias=-2").variant,
            variants::sigmoid({.causal = true, .bias = -2.0}));
}

TEST(SpecText, ACustomVariantKeepsItsSource) {
  const Variant variant = variants::custom("Mine", "struct Mine {  // it's \"quoted\"\n\t};\n",
                                           {{"bias", DType::f16}, {"table", DType::i64}},
                                           {{"cap", 0.1}, {"shift", -3.0}}, {7, 0}, false);
  AttentionSpec spec;
  spec.head_dim_qk = 96;
  spec.lse_base = LseBase::two;
  spec.variant = variant;
  const std::string text = to_json(spec);
  EXPECT_EQ(text.find('\n'), std::string::npos) << "one line";
  EXPECT_EQ(parse_spec(text), spec);
  EXPECT_EQ(to_json(parse_spec(text)), text);
}

TEST(SpecText, EveryStockSpecSurvivesTheRoundTrip) {
  for (const char* text : {"", "causal,soft_cap=30.1", "alibi,sinks", "rope,rope_dim=32", "sigmoid",
                           "custom_mask,window_right=5,head_dim_vo=64"}) {
    EXPECT_EQ(parse_spec(to_json(parse_spec(text))), parse_spec(text)) << text;
  }
}

TEST(SpecText, ErrorsNameTheKeyAndWhatWasExpected) {
  EXPECT_THAT(error_of("casual"), AllOf(HasSubstr("'casual'"), HasSubstr("causal")));
  EXPECT_THAT(error_of("soft_cap=big"), AllOf(HasSubstr("soft_cap"), HasSubstr("a number")));
  EXPECT_THAT(error_of("causal=1"), HasSubstr("true or false"));
  EXPECT_THAT(error_of("head_dim=12.5"), HasSubstr("an integer"));
  EXPECT_THAT(error_of("head_dim=99999999999"), HasSubstr("99999999999"));
  EXPECT_THAT(error_of("head_dim=0"), HasSubstr("head_dim is 0"));
  EXPECT_THAT(error_of("head_dim=-8"), HasSubstr("-8"));
  EXPECT_THAT(error_of("dtype=int3"), HasSubstr("int3"));
  EXPECT_THAT(error_of("lse_base=ten"), HasSubstr("natural or two"));
  EXPECT_THAT(error_of("causal,,sinks"), HasSubstr("name=value"));
  EXPECT_THAT(error_of("causal,causal"), HasSubstr("twice"));
  EXPECT_THAT(error_of("{\"causal\": tru}"), HasSubstr("not JSON"));
  EXPECT_THAT(error_of("{\"tensors\": 3, \"functor\": \"F\"}"), HasSubstr("an array"));
  EXPECT_THAT(error_of("{\"functor\": \"F\", \"scalars\": [{\"nam\": \"x\"}]}"),
              HasSubstr("'nam'"));
  EXPECT_THAT(error_of("rope_dim=64"), HasSubstr("rope itself"));
  EXPECT_THAT(error_of("window_left=-2"), HasSubstr("-2"));
}

// An option that does not apply is an error, never ignored.
TEST(SpecText, OptionsOfAnotherKindOfVariantAreRefused) {
  EXPECT_THAT(error_of("sigmoid,soft_cap=30"), HasSubstr("'soft_cap'"));
  EXPECT_THAT(error_of("functor=Mine,alibi"), HasSubstr("'alibi'"));
  EXPECT_THAT(error_of("causal,sigmoid_bias=1"), HasSubstr("'sigmoid_bias'"));
  EXPECT_THAT(error_of("rope.theta=5"), HasSubstr("'rope.theta'"));
}

}  // namespace
}  // namespace trencadis
