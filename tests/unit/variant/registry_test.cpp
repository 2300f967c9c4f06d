// From a variant to its functions: built in, compiled, or refused.
#include <gtest/gtest.h>

#include <vector>

#include "backends/cpu/builtin_variants.h"
#include "backends/cpu/variant_registry.h"
#include "support/expect_error.h"
#include "unit/variant/stock_fixture.h"

namespace trencadis::cpu {
namespace {

using testing::expect_error;
using testing::StockFixture;

/// The fixture's arguments in the order in which `variant` declares them.
contract::VariantArgs declared_args(const StockFixture& f, const Variant& variant) {
  contract::VariantArgs args{};
  for (std::size_t i = 0; i < variant.tensors.size(); ++i)
    args.tensors[i] =
        f.args.tensors[codegen::index_of(codegen::kStockTensors, variant.tensors[i].name)];
  for (std::size_t i = 0; i < variant.scalars.size(); ++i)
    args.scalars[i] =
        f.args.scalars[codegen::index_of(codegen::kStockScalars, variant.scalars[i].name)];
  return args;
}

std::vector<float> run_logits(const ResolvedVariant& resolved, const Variant& variant) {
  StockFixture f(3);
  std::vector<float> s = f.random_tile(f.tile.rows, StockFixture::kKeys);
  const contract::VariantArgs args = resolved.arrange(declared_args(f, variant));
  resolved.ops().logits(args, f.tile, f.positions.data(), StockFixture::kKeys, s.data(),
                        StockFixture::kKeys, true);
  return s;
}

Variant capped_and_masked() {
  return variants::softmax(
      {.soft_cap = 3.0, .alibi = true, .custom_mask = true, .document_mask = true});
}

TEST(VariantRegistry, StockVariantsNeedNoCompiler) {
  for (codegen::ComponentSet set = 0; set <= codegen::kAllComponents; ++set) {
    Variant variant{.functor = codegen::stock_chain(set)};
    for (const codegen::StockTensor& tensor : codegen::kStockTensors)
      if ((tensor.component & set) != 0)
        variant.tensors.push_back({std::string(tensor.name), tensor.dtype});
    for (const codegen::StockScalar& scalar : codegen::kStockScalars)
      if ((scalar.component & set) != 0) variant.scalars.push_back({std::string(scalar.name), 1.0});
    const auto builtin = find_builtin_variant(variant);
    ASSERT_TRUE(builtin) << variant.functor;
    EXPECT_TRUE(builtin->built_in());
    EXPECT_EQ(&builtin->ops(), &supported_stock_ops().front().find(set));
  }
}

TEST(VariantRegistry, ArgumentsAreMatchedByName) {
  const Variant usual = capped_and_masked();
  Variant shuffled = usual;
  std::reverse(shuffled.tensors.begin(), shuffled.tensors.end());
  std::reverse(shuffled.scalars.begin(), shuffled.scalars.end());
  EXPECT_EQ(run_logits(*find_builtin_variant(usual), usual),
            run_logits(*find_builtin_variant(shuffled), shuffled));
}

TEST(VariantRegistry, SingleFunctorIsAChainOfOne) {
  const Variant bare{.functor = "SoftCap", .scalars = {{"soft_cap", 3.0}}};
  const Variant chain = variants::softmax({.soft_cap = 3.0});
  EXPECT_EQ(&find_builtin_variant(bare)->ops(), &find_builtin_variant(chain)->ops());
}

TEST(VariantRegistry, CompiledEqualsBuiltIn) {
  const Variant stock = capped_and_masked();
  Variant compiled = stock;
  compiled.source = "using Same = " + stock.functor + ";";
  compiled.functor = "Chain<Same>";
  const ResolvedVariant resolved = resolve_variant(compiled);
  EXPECT_FALSE(resolved.built_in());
  const std::vector<float> a = run_logits(resolved, compiled);
  const std::vector<float> b = run_logits(*find_builtin_variant(stock), stock);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isinf(b[i]))
      EXPECT_EQ(a[i], b[i]);
    else
      EXPECT_NEAR(a[i], b[i], 1e-5);  // instruction sets may contract a multiply and an add
  }
}

TEST(VariantRegistry, AnotherOrderIsAnotherFunction) {
  Variant variant{.functor = "Chain<Alibi, SoftCap>",
                  .tensors = {{"alibi_slopes", DType::f32}},
                  .scalars = {{"soft_cap", 3.0}}};
  EXPECT_FALSE(find_builtin_variant(variant));
  const std::vector<float> s = run_logits(resolve_variant(variant), variant);
  for (float x : s) EXPECT_LE(std::fabs(x), 3.0f);  // biased first, capped last
}

TEST(VariantRegistry, ArgumentsOfEveryElementType) {
  const std::string source = R"(
struct SumOfAll {
  static constexpr HookSet hooks = kLogitsTransform;
  template <class P>
  TRENCADIS_FN static float logits_transform(const P& p, float logit, const LogitCoord&) {
    return logit + p.f32[0] + p.f16[0] + p.bf16[0] + static_cast<float>(p.f64[0]) +
           static_cast<float>(p.i32[0]) + static_cast<float>(p.i64[0]) + p.u8[0] + p.scalar;
  }
};
)";
  const Variant variant = variants::custom("SumOfAll", source,
                                           {{"f32", DType::f32},
                                            {"f16", DType::f16},
                                            {"bf16", DType::bf16},
                                            {"f64", DType::f64},
                                            {"i32", DType::i32},
                                            {"i64", DType::i64},
                                            {"u8", DType::u8}},
                                           {{"scalar", 64.0}});
  const ResolvedVariant resolved = resolve_variant(variant);
  const float f32 = 1;
  const std::uint16_t f16 = 0x4000;   // 2
  const std::uint16_t bf16 = 0x4080;  // 4
  const double f64 = 8;
  const std::int32_t i32 = 16;
  const std::int64_t i64 = 32;
  const std::uint8_t u8 = 128;
  contract::VariantArgs args{};
  const void* tensors[] = {&f32, &f16, &bf16, &f64, &i32, &i64, &u8};
  std::copy(std::begin(tensors), std::end(tensors), args.tensors);
  args.scalars[0] = 64.0;
  StockFixture f(1);
  f.tile.rows = 1;
  std::vector<float> s{0.5f, -1.0f};
  resolved.ops().logits(resolved.arrange(args), f.tile, f.positions.data(), 2, s.data(), 2, true);
  EXPECT_EQ(s, (std::vector<float>{255.5f, 254.0f}));
}

TEST(VariantRegistry, StockFunctorsGetWhatTheyRead) {
  const auto refuse = [](ErrorKind kind, std::string text, const Variant& variant) {
    expect_error(kind, {text}, [&] { find_builtin_variant(variant); });
  };
  constexpr auto kInvalid = ErrorKind::invalid_argument;
  refuse(kInvalid, "'soft_cap' is missing", {.functor = "Chain<SoftCap>"});
  refuse(kInvalid, "'Alibbi' is no stock functor", {.functor = "Chain<SoftCap, Alibbi>"});
  refuse(kInvalid, "'alibi_slopes' (float32) is missing", {.functor = "Alibi"});
  refuse(ErrorKind::type_mismatch, "'alibi_slopes' is bfloat16, expected float32",
         {.functor = "Alibi", .tensors = {{"alibi_slopes", DType::bf16}}});
  refuse(kInvalid, "'alibi_slopes' is not read by 'Chain<>'",
         {.tensors = {{"alibi_slopes", DType::f32}}});
  refuse(kInvalid, "'cap' is not read", {.scalars = {{"cap", 1.0}}});
  Variant half_positions = variants::softmax({.rope = variants::Rope{.explicit_positions = true}});
  half_positions.tensors.pop_back();
  refuse(kInvalid, "'kv_position_indptr' (int64) is missing", half_positions);
  Variant sinks = variants::sigmoid();
  sinks.sinks = true;
  refuse(ErrorKind::not_supported, "sinks join a softmax denominator", sinks);
}

TEST(VariantRegistry, CompileErrorsPointIntoTheUsersText) {
  const std::string source =
      "struct Mine {\n  static constexpr HookSet hooks = kLogitsMask;\n"
      "  template <class P>\n"
      "  static bool logits_mask(const P& p, const LogitCoord&) {\n"
      "    return p.no_such_scalar > 0;\n  }\n};";
  expect_error(ErrorKind::compile_failed, {"variant:5", "no_such_scalar"},
               [&] { resolve_variant(variants::custom("Mine", source)); });
  expect_error(ErrorKind::compile_failed, {"Unknown"},
               [&] { resolve_variant(variants::custom("Chain<Unknown>", "struct Mine {};")); });
}

}  // namespace
}  // namespace trencadis::cpu
