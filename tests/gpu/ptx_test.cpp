// The code paths of older devices, on the one that is here: their kernels as PTX, which the driver
// compiles for it ($TRENCADIS_CUDA_ARCH).
#include <gtest/gtest.h>
#include <trencadis/runtime.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/kernel_policy.h"
#include "codegen/cuda_architecture.h"
#include "support/backend_under_test.h"
#include "support/compare.h"
#include "support/expect_error.h"
#include "support/problem.h"
#include "support/run.h"

namespace trencadis::testing {
namespace {

/// "13.0"
std::pair<int, int> version_of(const std::string& text) {
  std::pair<int, int> version;
  std::sscanf(text.c_str(), "%d.%d", &version.first, &version.second);
  return version;
}

class PtxTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (backend_under_test() != BackendKind::cuda) GTEST_SKIP() << "the driver compiles PTX";
    const CudaDriverInfo driver = cuda_driver();
    for (const CompilerInfo& compiler : compilers())
      if (compiler.name == "nvrtc" && version_of(compiler.version) > version_of(driver.version))
        GTEST_SKIP() << "the driver is of CUDA " << driver.version << ", which does not know the "
                     << "PTX of NVRTC " << compiler.version;
  }
  void TearDown() override { unsetenv("TRENCADIS_CUDA_ARCH"); }

  static void choose(const char* architecture) { setenv("TRENCADIS_CUDA_ARCH", architecture, 1); }
};

struct Case {
  const char* architecture;
  DType dtype;
  int dim;
  const char* name;
};

class Ptx : public PtxTest, public ::testing::WithParamInterface<Case> {
 protected:
  static ProblemBuilder builder() {
    ProblemBuilder b;
    b.heads(8, 2).dims(GetParam().dim).dtype(GetParam().dtype).page_size(16);
    return b;
  }
};

TEST_P(Ptx, DecodePrefillAndMixed) {
  choose(GetParam().architecture);
  const std::vector<std::vector<Lengths>> batches{
      {{1, 3000}, {1, 1}, {1, 64}, {1, 0}, {1, 129}},
      {{90, 90}, {0, 5}, {33, 200}, {200, 200}},
      {{1, 700}, {20, 64}, {1, 0}, {40, 41}, {3, 2}, {1, 1}, {130, 150}}};
  const Problem first = builder().causal().lengths(batches[0]).build();
  Attention attention(first.spec, first.config);
  EXPECT_EQ(
      attention.device_limits().tile_memory,
      cuda::kernel_policy(first.spec, *codegen::find_cuda_architecture(GetParam().architecture))
          .tiles.tile_memory)
      << "the tiles are those of the older device";
  for (const std::vector<Lengths>& lengths : batches)
    for (const bool causal : {true, false}) {
      ProblemBuilder b = builder();
      if (causal) b.causal();
      const Problem problem = b.lengths(lengths).build();
      EXPECT_TRUE(close_to_reference(run_engine(problem), problem))
          << "l_q " << lengths[0].q << (causal ? ", causal" : "");
    }
}

TEST_P(Ptx, EveryLayoutAndPageSize) {
  choose(GetParam().architecture);
  for (const std::int64_t page : {1, 3, 64}) {
    const Problem problem = builder()
                                .page_size(page)
                                .layout(page == 3 ? KvLayout::hnd : KvLayout::nhd)
                                .pool(page == 64 ? PoolStyle::layered : PoolStyle::separate)
                                .variant(variants::softmax({.window_left = 60, .window_right = 2}))
                                .lengths({{1, 300}, {18, 65}, {70, 70}})
                                .build();
    EXPECT_TRUE(close_to_reference(run_engine(problem), problem)) << page;
  }
}

INSTANTIATE_TEST_SUITE_P(Gpu, Ptx,
                         ::testing::Values(Case{"compute_75", DType::f16, 64, "turing_f16_d64"},
                                           Case{"compute_75", DType::f16, 128, "turing_f16_d128"},
                                           Case{"compute_75", DType::f32, 64, "turing_f32_d64"},
                                           Case{"compute_80", DType::f16, 64, "ampere_f16_d64"},
                                           Case{"compute_80", DType::f16, 128, "ampere_f16_d128"},
                                           Case{"compute_80", DType::bf16, 64, "ampere_bf16_d64"},
                                           Case{"compute_80", DType::bf16, 128, "ampere_bf16_d128"},
                                           Case{"compute_80", DType::f32, 64, "ampere_f32_d64"}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_F(PtxTest, WhatTheDeviceDoesNotRunIsRefused) {
  const Problem problem = ProblemBuilder().dims(64).lengths({{1, 5}}).build();
  choose("compute_80a");
  expect_error(ErrorKind::not_supported, {"TRENCADIS_CUDA_ARCH is 'compute_80a'", "compute_80"},
               [&] { run_engine(problem); });
  choose("compute_75");  // bf16
  expect_error(ErrorKind::not_supported, {"bfloat16"}, [&] { run_engine(problem); });
}

}  // namespace
}  // namespace trencadis::testing
