// The generated text, byte for byte. After a change that is meant, write the files anew with
// TRENCADIS_UPDATE_GOLDEN=1 and read the difference.
#include <gtest/gtest.h>
#include <trencadis/runtime.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "codegen/cuda_service_source.h"
#include "codegen/cuda_source.h"
#include "codegen/host_source.h"
#include "support/expect_error.h"
#include "support/paths.h"

namespace trencadis::codegen {
namespace {

std::string golden_path(const std::string& name) {
  return testing::source_dir() + "/tests/codegen/golden/" + name + ".txt";
}

void expect_golden_text(const std::string& name, const std::string& text) {
  if (std::getenv("TRENCADIS_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(golden_path(name)) << text;
    return;
  }
  std::ifstream file(golden_path(name));
  ASSERT_TRUE(file) << golden_path(name) << " is missing: run with TRENCADIS_UPDATE_GOLDEN=1";
  std::ostringstream expected;
  expected << file.rdbuf();
  EXPECT_EQ(text, expected.str());
}

void expect_golden(const std::string& name, const Variant& variant) {
  expect_golden_text(name, host_source(variant).text);
}

Variant scaled_bias() {
  return variants::custom(
      "Chain<SoftCap, ScaledBias<2>>",
      "template <int kScale>\n"
      "struct ScaledBias {\n"
      "  static constexpr HookSet hooks = kLogitsTransform;\n"
      "  template <class P>\n"
      "  TRENCADIS_FN static float logits_transform(const P& p, float logit, const LogitCoord& at) "
      "{\n"
      "    return logit + kScale * p.strength * p.bias[at.kv_pos];\n"
      "  }\n"
      "};",  // no newline at the end
      {{"bias", DType::bf16}}, {{"soft_cap", 30.0}, {"strength", 0.5}});
}

TEST(HostSource, OfPlainAttention) {
  expect_golden("plain", Variant{});
}

TEST(HostSource, OfStockFunctors) {
  expect_golden("stock", variants::softmax({.causal = true,
                                            .soft_cap = 30.0,
                                            .alibi = true,
                                            .document_mask = true,
                                            .rope = variants::Rope{.explicit_positions = true}}));
}

TEST(HostSource, OfACustomFunctorInAChain) {
  expect_golden("custom", scaled_bias());
}

TEST(HostSource, OfEveryElementType) {
  expect_golden("element_types", variants::custom("Mine", "struct Mine {};\n",
                                                  {{"a", DType::f32},
                                                   {"b", DType::f64},
                                                   {"c", DType::f16},
                                                   {"d", DType::bf16},
                                                   {"e", DType::i32},
                                                   {"f", DType::i64},
                                                   {"g", DType::u8}},
                                                  {{"x", 1}, {"y", 2}}));
}

TEST(HostSource, DependsOnCodeAndNamesAlone) {
  // What is an argument at run time must not ask for another compilation.
  const Variant a = scaled_bias();
  Variant b = a;
  b.scalars[1].value = 7.0;
  b.bounds = {4, 0};
  b.use_softmax = false;
  EXPECT_EQ(host_source(a).text, host_source(b).text);
  AttentionSpec small{.head_dim_qk = 64, .dtype_kv = DType::f32, .variant = a};
  AttentionSpec large{.head_dim_qk = 256, .variant = b};
  EXPECT_EQ(kernel_source(small, "host"), kernel_source(large, "host"));

  b.tensors[0].dtype = DType::f16;
  EXPECT_NE(host_source(a).text, host_source(b).text);
}

TEST(HostSource, NamesTheKernelAndWhatItExports) {
  const jit::KernelSource source = host_source(scaled_bias());
  EXPECT_EQ(source.name, "cpu_variant_Chain_SoftCap_ScaledBias_2");
  EXPECT_EQ(source.symbols, (std::vector<std::string>{"trencadis_variant_ops"}));
  EXPECT_EQ(source.language, jit::Language::host_cpp);
  Variant deep;
  deep.functor = "Chain<";
  for (int i = 0; i < 40; ++i) deep.functor += "Chain<>, ";
  deep.functor += "Chain<>>";
  EXPECT_LE(host_source(deep).name.size(), 96u);
}

TEST(HostSource, LinesOfTheGeneratedPartAreItsOwn) {
  // After the user's text, "#line N" must name the line that follows it.
  const std::string text = host_source(scaled_bias()).text;
  std::istringstream lines(text);
  std::string line;
  int number = 0;
  bool seen = false;
  while (std::getline(lines, line)) {
    ++number;
    if (!line.starts_with("#line") || !line.ends_with("\"generated\"")) continue;
    EXPECT_EQ(line, "#line " + std::to_string(number + 1) + " \"generated\"");
    seen = true;
  }
  EXPECT_TRUE(seen);
}

std::string cuda_text(const AttentionSpec& spec, const CudaKernelConfig& config) {
  return cuda_source(spec, config).text;
}

const CudaKernelConfig kConfig{
    .architecture = "sm_90a", .classes = {{1, 64}, {16, 64}, {64, 128}}, .stages = {2, 3, 2}};

TEST(CudaSource, OfPlainAttention) {
  expect_golden_text("cuda_plain", cuda_text(AttentionSpec{}, kConfig));
}

TEST(CudaSource, OfACustomFunctorInAChain) {
  const AttentionSpec spec{.head_dim_qk = 192,
                           .head_dim_vo = 128,
                           .dtype_q = DType::f16,
                           .dtype_kv = DType::f16,
                           .dtype_o = DType::f32,
                           .variant = scaled_bias()};
  expect_golden_text("cuda_custom", cuda_text(spec, kConfig));
}

/// Of the Hopper template.
const CudaKernelConfig kRingConfig{.architecture = "sm_90a",
                                   .warps = 8,
                                   .producer_warps = 4,
                                   .query_buffers = 2,
                                   .classes = {{16, 128}, {128, 128}},
                                   .stages = {4, 4}};

TEST(CudaSource, OfAKernelWhoseCtasHaveRoles) {
  const AttentionSpec spec{.variant = variants::softmax({.causal = true, .soft_cap = 30.0})};
  expect_golden_text("cuda_ring", cuda_text(spec, kRingConfig));
}

TEST(CudaSource, DependsOnWhatIsFixedWhenItIsCompiled) {
  AttentionSpec spec{.variant = scaled_bias()};
  const std::string text = cuda_text(spec, kConfig);
  AttentionSpec same = spec;
  same.variant.scalars[1].value = 7.0;
  same.variant.bounds = {4, 0};
  same.variant.sinks = true;
  same.lse_base = LseBase::two;
  same.head_dim_vo = same.head_dim_qk;
  EXPECT_EQ(cuda_text(same, kConfig), text);

  AttentionSpec other = spec;
  other.head_dim_qk = 64;
  EXPECT_NE(cuda_text(other, kConfig), text);
  other = spec;
  other.dtype_o = DType::f32;
  EXPECT_NE(cuda_text(other, kConfig), text);
  other = spec;
  other.variant.use_softmax = false;
  EXPECT_NE(cuda_text(other, kConfig), text);
  CudaKernelConfig wide = kConfig;
  wide.warps = 8;
  EXPECT_NE(cuda_text(spec, wide), text);
  CudaKernelConfig single = kRingConfig;
  single.query_buffers = 1;
  EXPECT_NE(cuda_text(spec, single), cuda_text(spec, kRingConfig));
  CudaKernelConfig tiles = kConfig;
  std::swap(tiles.classes[0], tiles.classes[1]);
  EXPECT_NE(cuda_text(spec, tiles), text);
}

TEST(CudaSource, NamesTheKernelAndWhatItExports) {
  const jit::KernelSource source = cuda_source(AttentionSpec{.variant = scaled_bias()}, kConfig);
  EXPECT_EQ(source.name, "cuda_bfloat16_d128_Chain_SoftCap_ScaledBias_2");
  EXPECT_EQ(source.symbols, (std::vector<std::string>{"trencadis_attention"}));
  EXPECT_EQ(source.language, jit::Language::cuda_cpp);
  EXPECT_EQ(source.prebuild_command.find("trencadis compile --arch sm_90a --spec '{"), 0u);
  for (const jit::EmbeddedFile& header : source.headers)
    EXPECT_FALSE(header.path.starts_with("cpu/")) << header.path << " is not for devices";
  for (const jit::EmbeddedFile& header : host_source(Variant{}).headers)
    EXPECT_FALSE(header.path.starts_with("cuda/")) << header.path << " is not for the host";
}

TEST(CudaSource, RefusesWhatItHasNoKernelsFor) {
  testing::expect_error(ErrorKind::not_supported, {"head_dim_qk is 100", "multiples of 8"},
                        [] { cuda_source(AttentionSpec{.head_dim_qk = 100}, kConfig); });
  testing::expect_error(ErrorKind::not_supported, {"dtype_q is bfloat16", "dtype_kv is float32"},
                        [] { cuda_source(AttentionSpec{.dtype_kv = DType::f32}, kConfig); });
}

TEST(CudaServiceSource, OfTokensAndPages) {
  expect_golden_text("cuda_pages",
                     service_source(ServiceFamily::pages, DType::f32, DType::bf16, "sm_90a").text);
}

TEST(CudaServiceSource, OfMerges) {
  expect_golden_text("cuda_merges",
                     service_source(ServiceFamily::merges, DType::f16, DType::f16, "sm_90a").text);
}

TEST(CudaServiceSource, OfTheCheckOfPlans) {
  const jit::KernelSource source = check_plan_source({}, "sm_90a");
  expect_golden_text("cuda_check_plan", source.text);
  EXPECT_EQ(source.symbols, std::vector<std::string>{"trencadis_check_plan"});
  EXPECT_EQ(source.prebuild_command.find("trencadis compile --arch sm_90a"), 0u);
}

TEST(CudaServiceSource, NamesTheKernelsAndWhatItExports) {
  const jit::KernelSource pages =
      service_source(ServiceFamily::pages, DType::f32, DType::bf16, "sm_90a");
  EXPECT_EQ(pages.name, "cuda_pages_float32_bfloat16");
  EXPECT_EQ(pages.symbols, (std::vector<std::string>{"trencadis_append_float32_bfloat16",
                                                     "trencadis_gather_float32_bfloat16",
                                                     "trencadis_copy_pages_float32_bfloat16"}));
  EXPECT_EQ(pages.prebuild_command.find("trencadis compile --arch sm_90a --spec '{"), 0u);
  EXPECT_EQ(pages.text,
            service_source(ServiceFamily::pages, DType::f32, DType::bf16, "sm_80").text);
  const jit::KernelSource merges =
      service_source(ServiceFamily::merges, DType::bf16, DType::f16, "sm_90a");
  EXPECT_EQ(merges.symbols, (std::vector<std::string>{"trencadis_merge_pair_bfloat16_float16",
                                                      "trencadis_merge_stacked_bfloat16_float16",
                                                      "trencadis_merge_ragged_bfloat16_float16"}));
  EXPECT_NE(merges.text, service_source(ServiceFamily::merges, DType::f16, DType::bf16, "").text);
  testing::expect_error(ErrorKind::not_supported, {"float64"}, [] {
    service_source(ServiceFamily::merges, DType::f64, DType::f16, "sm_90a");
  });
}

TEST(CudaArchitecture, OfADeviceIsOneWhoseKernelsItRuns) {
  const auto name = [](int major, int minor) {
    const CudaArchitecture* architecture = cuda_architecture_of(major, minor);
    return architecture == nullptr ? std::string() : std::string(architecture->name);
  };
  EXPECT_EQ(name(7, 5), "sm_75");
  EXPECT_EQ(name(8, 0), "sm_80");
  EXPECT_EQ(name(8, 7), "sm_86");
  EXPECT_EQ(name(8, 9), "sm_89");
  EXPECT_EQ(name(9, 0), "sm_90a");
  EXPECT_EQ(name(10, 0), "sm_100a");
  EXPECT_EQ(name(10, 3), "") << "code for sm_100a runs on nothing else";
  EXPECT_EQ(name(7, 0), "");
}

TEST(KernelSource, RefusesWhatItDoesNotGenerate) {
  testing::expect_error(
      ErrorKind::not_supported,
      {"'sm_91'", "'host'", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"},
      [] { kernel_source(AttentionSpec{}, "sm_91"); });
  const Variant rope = variants::softmax({.rope = variants::Rope{.rotary_dim = 96}});
  testing::expect_error(ErrorKind::invalid_argument, {"rope_dim", "96", "head_dim_qk = 64"}, [&] {
    kernel_source(AttentionSpec{.head_dim_qk = 64, .variant = rope}, "host");
  });
  const Variant whole = variants::softmax({.rope = variants::Rope{}});
  testing::expect_error(ErrorKind::invalid_argument, {"head_dim_qk is 63", "even"}, [&] {
    kernel_source(AttentionSpec{.head_dim_qk = 63, .variant = whole}, "host");
  });
}

}  // namespace
}  // namespace trencadis::codegen
