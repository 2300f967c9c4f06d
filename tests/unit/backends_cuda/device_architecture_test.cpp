#include "backends/cuda/device_architecture.h"

#include <vector>

#include "fixture.h"

namespace trencadis::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class DeviceArchitectureTest : public CudaTest {
 protected:
  std::string chosen(const std::string& name) const {
    const ScopedVariable variable("TRENCADIS_CUDA_ARCH", name);
    return std::string(architecture_of(*context_).name);
  }

  ContextPointer context_ = PrimaryContext::retain(*driver_, 0);
};

TEST_F(DeviceArchitectureTest, IsTheBestForTheDeviceUnlessAnotherIsAskedFor) {
  EXPECT_EQ(chosen(""), "sm_90a");
  for (const char* name : {"compute_75", "compute_80", "compute_86", "compute_89", "sm_90a"})
    EXPECT_EQ(chosen(name), name);
}

TEST_F(DeviceArchitectureTest, WhatTheDeviceDoesNotRunIsRefusedByName) {
  for (const char* name : {"sm_80", "sm_100a", "compute_31", "hopper"}) {
    const std::string text =
        error_text(ErrorKind::not_supported, [&] { static_cast<void>(chosen(name)); });
    EXPECT_THAT(text, HasSubstr(std::string("TRENCADIS_CUDA_ARCH is '") + name + "'"));
    EXPECT_THAT(text, HasSubstr("expected one of sm_90a, compute_75, compute_80"));
    EXPECT_THAT(text, Not(HasSubstr("sm_86")));
  }
}

TEST(CudaArchitectures, PtxRunsOnLaterDevicesAndHasTheLimitsOfItsOwn) {
  for (const codegen::CudaArchitecture& real : codegen::cuda_architectures()) {
    EXPECT_FALSE(real.is_ptx());
    EXPECT_TRUE(real.runs_on(real.major, real.minor));
    EXPECT_FALSE(real.runs_on(real.major + 1, 0)) << "code for one major version is not the next's";
    if (real.name.ends_with('a')) continue;
    const codegen::CudaArchitecture* ptx =
        codegen::find_cuda_architecture("compute_" + std::string(real.name.substr(3)));
    ASSERT_NE(ptx, nullptr) << real.name;
    EXPECT_TRUE(ptx->is_ptx());
    EXPECT_EQ(ptx->max_cta_shared_memory, real.max_cta_shared_memory);
    EXPECT_TRUE(ptx->runs_on(12, 0));
    EXPECT_TRUE(ptx->runs_on(real.major, real.minor));
    EXPECT_FALSE(ptx->runs_on(7, 0));
  }
}

}  // namespace
}  // namespace trencadis::cuda
