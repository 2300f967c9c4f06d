#include "support/backend_under_test.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "backends/cuda/driver.h"

namespace trencadis::testing {
namespace {

/// Before the first test, and not in each: a machine without a device skips them all.
class DeviceIsThere : public ::testing::Environment {
 public:
  void SetUp() override {
    if (backend_under_test() != BackendKind::cuda) return;
    const cuda::DriverDescription driver = cuda::describe_driver();
    if (driver.available) return;
    std::printf("skipped: %s\n", driver.reason.c_str());
    std::fflush(stdout);
    std::_Exit(kSkipped);
  }
};

[[maybe_unused]] const ::testing::Environment* const registered =
    ::testing::AddGlobalTestEnvironment(new DeviceIsThere);

}  // namespace

BackendKind backend_under_test() {
  const char* name = std::getenv("TRENCADIS_TEST_BACKEND");
  return name == nullptr || *name == 0 ? BackendKind::cpu : parse_backend(name);
}

bool only_compiles() {
  return std::getenv("TRENCADIS_TEST_ONLY_COMPILES") != nullptr;
}

HookedRows hooked_rows_under_test() {
  return backend_under_test() == BackendKind::cuda ? HookedRows::rounded : HookedRows::float32;
}

}  // namespace trencadis::testing
