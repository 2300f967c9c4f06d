// The kernels of tokens, pages, merges and checks compile for every architecture and pair of
// dtypes, export what they say, and come with a spec's own kernel. No GPU is needed, only NVRTC.
#include <gtest/gtest.h>
#include <trencadis/runtime.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "backends/cuda/service_kernels.h"
#include "codegen/cuda_architecture.h"
#include "codegen/cuda_service_source.h"
#include "jit/jit.h"
#include "jit/nvrtc.h"

namespace trencadis::codegen {
namespace {

constexpr DType kDTypes[] = {DType::f32, DType::f16, DType::bf16};

class ServiceCompile : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const jit::CompilerDescription nvrtc = jit::describe_nvrtc(); !nvrtc.available)
      GTEST_SKIP() << nvrtc.reason;
  }
};

void expect_compiles(const jit::KernelSource& source, const std::string& architecture) {
  const jit::LoadedArtifact code = jit::load_device_kernel(source, architecture);
  const auto* begin = reinterpret_cast<const char*>(code.artifact->data());
  const std::string_view bytes(begin, code.artifact->size());
  for (const std::string& symbol : source.symbols)
    EXPECT_NE(bytes.find(symbol), std::string_view::npos) << symbol << " on " << architecture;
}

void expect_compiles(ServiceFamily family, DType from, DType to, const std::string& architecture) {
  expect_compiles(service_source(family, from, to, architecture), architecture);
}

TEST_F(ServiceCompile, TheCheckOfPlansOnEveryArchitecture) {
  for (const CudaArchitecture& architecture : cuda_architectures())
    expect_compiles(check_plan_source({}, architecture.name), std::string(architecture.name));
}

TEST_F(ServiceCompile, EveryPairOfDtypes) {
  for (const ServiceFamily family : {ServiceFamily::pages, ServiceFamily::merges})
    for (const DType from : kDTypes)
      for (const DType to : kDTypes) expect_compiles(family, from, to, "sm_90a");
}

TEST_F(ServiceCompile, EveryArchitecture) {
  for (const CudaArchitecture& architecture : cuda_architectures())
    for (const ServiceFamily family : {ServiceFamily::pages, ServiceFamily::merges})
      for (const DType dtype : {DType::f16, DType::bf16})
        expect_compiles(family, DType::f32, dtype, std::string(architecture.name));
}

// compile() puts into the cache what an Attention of the spec will ask for, and the command that a
// service's error quotes does so for that service.
TEST_F(ServiceCompile, AreCompiledWithASpec) {
  AttentionSpec spec;
  spec.head_dim_qk = 64;
  spec.dtype_q = spec.dtype_kv = DType::f16;
  spec.dtype_o = DType::f32;
  compile(spec, "sm_80");
  const auto sources = cuda::service_sources(spec, "sm_80");
  for (const jit::KernelSource& source : sources)
    EXPECT_TRUE(jit::load_device_kernel(source, "sm_80").from_cache) << source.name;
  for (const char* name :
       {"cuda_pages_float32_float16", "cuda_pages_float16_float16", "cuda_pages_float16_float32",
        "cuda_merges_float32_float16", "cuda_merges_float32_float32", "cuda_check_plan"})
    EXPECT_TRUE(std::ranges::any_of(sources, [&](const jit::KernelSource& source) {
      return source.name == name;
    })) << name;
  for (const ServiceFamily family : {ServiceFamily::pages, ServiceFamily::merges})
    for (const DType from : kDTypes)
      for (const DType to : kDTypes) {
        AttentionSpec quoted;
        quoted.dtype_q = quoted.dtype_kv = to;
        quoted.dtype_o = from;
        const auto ids = cuda::services_of(quoted);
        EXPECT_NE(std::ranges::find(ids, cuda::ServiceModuleId{family, from, to}), ids.end())
            << to_string(from) << " to " << to_string(to);
      }
}

}  // namespace
}  // namespace trencadis::codegen
