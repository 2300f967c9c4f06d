#include "backends/cuda/driver.h"

#include <utility>
#include <vector>

#include "fixture.h"

namespace trencadis::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using DriverTest = CudaTest;

TEST(DriverSearch, AMissingLibraryNamesWhatWasSearched) {
  const ScopedVariable chosen("TRENCADIS_LIBCUDA", "/nonexistent/libcuda.so");
  EXPECT_THAT(error_text(ErrorKind::not_supported, [] { Driver::open(); }),
              AllOf(HasSubstr("no CUDA driver"), HasSubstr("TRENCADIS_LIBCUDA is set"),
                    HasSubstr("/nonexistent/libcuda.so")));
  const DriverDescription description = describe_driver();
  EXPECT_FALSE(description.available);
  EXPECT_THAT(description.path, IsEmpty());
  EXPECT_THAT(description.reason, HasSubstr("/nonexistent/libcuda.so"));
}

TEST(DriverSearch, WithoutTheVariableTheLinkerIsAsked) {
  const ScopedVariable none("TRENCADIS_LIBCUDA", "");
  const DriverDescription description = describe_driver();
  if (!description.path.empty()) GTEST_SKIP() << "this machine has " << description.path;
  EXPECT_THAT(description.reason, AllOf(HasSubstr("libcuda.so.1"), HasSubstr("install NVIDIA's"),
                                        HasSubstr("set TRENCADIS_LIBCUDA")));
}

TEST(DriverSearch, ALibraryThatIsNoDriverIsNamed) {
  const ScopedVariable chosen("TRENCADIS_LIBCUDA", "libm.so.6");
  EXPECT_THAT(error_text(ErrorKind::not_supported, [] { Driver::open(); }),
              AllOf(HasSubstr("libm"), HasSubstr("does not tell its version")));
}

TEST_F(DriverTest, AnOldDriverIsRefusedWithBothVersions) {
  const ScopedVariable old("TRENCADIS_FAKE_CUDA_VERSION", "11080");
  EXPECT_THAT(error_text(ErrorKind::not_supported, [] { Driver::open(); }),
              AllOf(HasSubstr("libcuda_fake.so"), HasSubstr("too old"), HasSubstr("needs 12.0"),
                    HasSubstr("is 11.8")));
  const DriverDescription description = describe_driver();
  EXPECT_FALSE(description.available);
  EXPECT_EQ(description.version, "11.8") << "what is there is told all the same";
  EXPECT_THAT(description.path, HasSubstr("libcuda_fake.so"));
}

TEST_F(DriverTest, TheToolkitsStubIsNoDriver) {
  const ScopedVariable stub("TRENCADIS_FAKE_CUDA_FAIL", "cuDriverGetVersion=34");
  EXPECT_THAT(error_text(ErrorKind::not_supported, [] { Driver::open(); }), HasSubstr("stub"));
}

TEST_F(DriverTest, ADriverWithoutADeviceSaysSo) {
  const ScopedVariable none("TRENCADIS_FAKE_CUDA_FAIL", "cuInit=100");
  EXPECT_THAT(error_text(ErrorKind::not_supported, [] { Driver::open(); }),
              AllOf(HasSubstr("cuInit failed: CUDA_ERROR_NO_DEVICE"),
                    HasSubstr("no CUDA-capable device is detected")));
  EXPECT_EQ(describe_driver().version, "13.0");
}

TEST_F(DriverTest, DescribesDriverAndDevices) {
  const DriverDescription description = describe_driver();
  EXPECT_TRUE(description.available) << description.reason;
  EXPECT_THAT(description.reason, IsEmpty());
  EXPECT_EQ(description.version, "13.0");
  ASSERT_EQ(description.devices.size(), 2u);
  EXPECT_EQ(description.devices[1].ordinal, 1);
  EXPECT_EQ(description.devices[1].name, "Fake 1");
  EXPECT_EQ(description.devices[1].major, 9);
  EXPECT_EQ(description.devices[1].minor, 0);
  EXPECT_EQ(description.devices[1].memory_bytes, 64 << 20);
  EXPECT_EQ(driver_->version(), 13000);
  EXPECT_EQ(driver_->device_count(), 2);
}

TEST_F(DriverTest, AFailureWhileDescribingIsAReason) {
  fake_.fail("cuDeviceTotalMem_v2", 719);
  const DriverDescription description = describe_driver();
  fake_.fail("cuDeviceTotalMem_v2", 0);
  EXPECT_FALSE(description.available);
  EXPECT_THAT(description.reason, HasSubstr("cuDeviceTotalMem failed"));
  EXPECT_THAT(description.devices, IsEmpty());
}

TEST_F(DriverTest, TheProcessOpensItOnce) {
  EXPECT_EQ(&driver(), &driver());
}

TEST_F(DriverTest, EveryCallThatFailsIsNamedWithItsStatus) {
  const Driver& d = *driver_;
  std::size_t size = 0;
  int number = 0;
  void* pointer = nullptr;
  Context context = nullptr;
  Module module = nullptr;
  Function function = nullptr;
  DevicePointer memory = 0;
  EventHandle event = nullptr;
  CaptureStatus capture{};
  const LaunchConfig launch;
  const std::vector<std::pair<std::string, std::function<void()>>> calls = {
      {"cuInit", [&] { d.init(0); }},
      {"cuDriverGetVersion", [&] { d.driver_get_version(&number); }},
      {"cuDeviceGetCount", [&] { d.device_get_count(&number); }},
      {"cuDeviceGet", [&] { d.device_get(&number, 0); }},
      {"cuDeviceGetName", [&] { d.device_get_name(nullptr, 0, 0); }},
      {"cuDeviceGetAttribute", [&] { d.device_get_attribute(&number, DeviceAttribute{}, 0); }},
      {"cuDeviceTotalMem_v2", [&] { d.device_total_mem(&size, 0); }},
      {"cuDevicePrimaryCtxRetain", [&] { d.primary_ctx_retain(&context, 0); }},
      {"cuDevicePrimaryCtxRelease_v2", [&] { d.primary_ctx_release(0); }},
      {"cuCtxGetCurrent", [&] { d.ctx_get_current(&context); }},
      {"cuCtxPushCurrent_v2", [&] { d.ctx_push_current(nullptr); }},
      {"cuCtxPopCurrent_v2", [&] { d.ctx_pop_current(&context); }},
      {"cuModuleLoadData", [&] { d.module_load_data(&module, ""); }},
      {"cuModuleUnload", [&] { d.module_unload(nullptr); }},
      {"cuModuleGetFunction", [&] { d.module_get_function(&function, nullptr, ""); }},
      {"cuModuleGetGlobal_v2", [&] { d.module_get_global(&memory, &size, nullptr, ""); }},
      {"cuFuncSetAttribute", [&] { d.func_set_attribute(nullptr, FunctionAttribute{}, 0); }},
      {"cuFuncGetAttribute", [&] { d.func_get_attribute(&number, FunctionAttribute{}, nullptr); }},
      {"cuOccupancyMaxActiveBlocksPerMultiprocessor",
       [&] { d.occupancy_max_active_blocks(&number, nullptr, 0, 0); }},
      {"cuLaunchKernelEx", [&] { d.launch_kernel(&launch, nullptr, nullptr, nullptr); }},
      {"cuMemAlloc_v2", [&] { d.mem_alloc(&memory, 1); }},
      {"cuMemFree_v2", [&] { d.mem_free(0); }},
      {"cuMemGetInfo_v2", [&] { d.mem_get_info(&size, &size); }},
      {"cuMemHostAlloc", [&] { d.mem_host_alloc(&pointer, 1, 0); }},
      {"cuMemFreeHost", [&] { d.mem_free_host(nullptr); }},
      {"cuMemcpyHtoDAsync_v2", [&] { d.memcpy_htod_async(0, nullptr, 0, nullptr); }},
      {"cuMemcpyDtoHAsync_v2", [&] { d.memcpy_dtoh_async(nullptr, 0, 0, nullptr); }},
      {"cuMemcpyDtoH_v2", [&] { d.memcpy_dtoh(nullptr, 0, 0); }},
      {"cuMemsetD8Async", [&] { d.memset_d8_async(0, 0, 0, nullptr); }},
      {"cuPointerGetAttribute", [&] { d.pointer_get_attribute(&number, PointerAttribute{}, 0); }},
      {"cuStreamIsCapturing", [&] { d.stream_is_capturing(nullptr, &capture); }},
      {"cuStreamSynchronize", [&] { d.stream_synchronize(nullptr); }},
      {"cuEventCreate", [&] { d.event_create(&event, 0); }},
      {"cuEventDestroy_v2", [&] { d.event_destroy(nullptr); }},
      {"cuEventRecord", [&] { d.event_record(reinterpret_cast<EventHandle>(&number), nullptr); }},
      {"cuEventQuery", [&] { d.event_query(nullptr); }},
      {"cuEventSynchronize", [&] { d.event_synchronize(nullptr); }},
  };
  for (const auto& [symbol, call] : calls) {
    fake_.fail(symbol, 719);
    const std::string name = symbol.substr(0, symbol.find("_v2"));
    EXPECT_EQ(error_text(ErrorKind::device, call),
              name + " failed: CUDA_ERROR_LAUNCH_FAILED (unspecified launch failure)");
    fake_.fail(symbol, 0);
  }
}

TEST_F(DriverTest, AStatusThatTheDriverDoesNotKnowIsANumber) {
  fake_.fail("cuStreamSynchronize", 12345);
  EXPECT_EQ(error_text(ErrorKind::device, [&] { driver_->stream_synchronize(nullptr); }),
            "cuStreamSynchronize failed: status 12345, which this driver does not name");
  fake_.fail("cuStreamSynchronize", 0);
}

}  // namespace
}  // namespace trencadis::cuda
