#include "backends/cuda/resources.h"

#include <cstring>
#include <thread>

#include "fixture.h"

namespace trencadis::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ResourcesTest : public CudaTest {
 protected:
  void TearDown() override {
    context_.reset();
    for (const char* what :
         {"primary context", "device buffer", "pinned buffer", "event", "module"})
      EXPECT_EQ(fake_.count(what), 0) << what;
    EXPECT_EQ(fake_.current_device(), -1) << "as many contexts were popped as pushed";
  }

  ContextPointer context_ = PrimaryContext::retain(*driver_, 0);
};

std::span<const std::byte> image(const char* functions) {
  return std::as_bytes(std::span(functions, std::strlen(functions) + 1));
}

TEST_F(ResourcesTest, ADeviceThatIsNotThereIsNamed) {
  EXPECT_EQ(error_text(ErrorKind::invalid_argument, [&] { PrimaryContext::retain(*driver_, 2); }),
            "device is 2, expected 0 to 1");
  EXPECT_EQ(error_text(ErrorKind::invalid_argument, [&] { PrimaryContext::retain(*driver_, -1); }),
            "device is -1, expected 0 to 1");
}

TEST_F(ResourcesTest, AContextTellsOfItsDevice) {
  EXPECT_EQ(context_->ordinal(), 0);
  EXPECT_EQ(context_->attribute(DeviceAttribute::multiprocessor_count), 132);
  EXPECT_EQ(context_->attribute(DeviceAttribute::max_shared_memory_per_block_optin), 232448);
}

TEST_F(ResourcesTest, GuardsNestAndRestoreWhatWasCurrent) {
  const ContextPointer other = PrimaryContext::retain(*driver_, 1);
  {
    const ContextGuard outer(*context_);
    EXPECT_EQ(fake_.current_device(), 0);
    {
      const ContextGuard inner(*other);
      EXPECT_EQ(fake_.current_device(), 1);
    }
    EXPECT_EQ(fake_.current_device(), 0);
  }
  EXPECT_EQ(fake_.current_device(), -1);
}

TEST_F(ResourcesTest, AContextThatIsCurrentIsNotPushedAgain) {
  const ContextGuard outer(*context_);
  const int pushed = fake_.count("cuCtxPushCurrent_v2"), popped = fake_.count("cuCtxPopCurrent_v2");
  { const ContextGuard inner(*context_); }
  EXPECT_EQ(fake_.current_device(), 0);
  EXPECT_EQ(fake_.count("cuCtxPushCurrent_v2"), pushed);
  EXPECT_EQ(fake_.count("cuCtxPopCurrent_v2"), popped);
}

TEST_F(ResourcesTest, AGuardRestoresWhereSomethingThrows) {
  fake_.fail("cuMemAlloc_v2", 719);
  EXPECT_THROW(DeviceBuffer(context_, 16), Error);
  fake_.fail("cuMemAlloc_v2", 0);
  EXPECT_EQ(fake_.current_device(), -1);
}

TEST_F(ResourcesTest, BuffersAreFreedInTheirOwnContext) {
  {
    DeviceBuffer buffer(context_, 1000);
    PinnedBuffer pinned(context_, 1000);
    EXPECT_EQ(buffer.bytes(), 1000u);
    EXPECT_EQ(fake_.count("device buffer"), 1);
    EXPECT_EQ(fake_.count("pinned buffer"), 1);
    DeviceBuffer moved = std::move(buffer);
    EXPECT_NE(moved.get(), 0u);
    EXPECT_EQ(buffer.get(), 0u);  // NOLINT(bugprone-use-after-move): what is meant
    moved = DeviceBuffer(context_, 10);
    EXPECT_EQ(fake_.count("device buffer"), 1) << "the old one is freed";
    context_.reset();
    EXPECT_EQ(fake_.count("primary context"), 1) << "buffers hold their context";
  }
  EXPECT_EQ(fake_.count("device buffer"), 0);
}

TEST_F(ResourcesTest, AnEmptyBufferAsksForNothing) {
  const DeviceBuffer buffer(context_, 0);
  const PinnedBuffer pinned(context_, 0);
  EXPECT_EQ(buffer.get(), 0u);
  EXPECT_EQ(pinned.data(), nullptr);
  EXPECT_EQ(fake_.count("device buffer"), 0);
}

TEST_F(ResourcesTest, TooLittleMemoryStatesNeededAndFree) {
  const DeviceBuffer buffer(context_, 32 << 20);
  EXPECT_THAT(error_text(ErrorKind::out_of_capacity, [&] { DeviceBuffer(context_, 48 << 20); }),
              AllOf(HasSubstr("device 0"), HasSubstr("33554432 bytes free"),
                    HasSubstr("needed are 50331648"), HasSubstr("CUDA_ERROR_OUT_OF_MEMORY")));
}

TEST_F(ResourcesTest, CopiesArrive) {
  const DeviceBuffer buffer(context_, 4);
  const PinnedBuffer from(context_, 4);
  const PinnedBuffer to(context_, 4);
  std::memcpy(from.data(), "abcd", 4);
  const ContextGuard guard(*context_);
  driver_->memcpy_htod_async(buffer.get(), from.data(), 4, nullptr);
  driver_->memset_d8_async(buffer.get() + 1, 'x', 2, nullptr);
  driver_->memcpy_dtoh_async(to.data(), buffer.get(), 4, nullptr);
  driver_->stream_synchronize(nullptr);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(to.data()), 4), "axxd");
}

TEST_F(ResourcesTest, EventsTellWhatIsDoneAndWhatFailed) {
  const Event event(context_);
  event.record(nullptr);
  EXPECT_TRUE(event.ready());
  event.wait();
  fake_.fail("cuEventQuery", 600);
  EXPECT_FALSE(event.ready()) << "not ready is an answer";
  fake_.fail("cuEventQuery", 719);
  EXPECT_THAT(error_text(ErrorKind::device, [&] { event.ready(); }),
              HasSubstr("cuEventQuery failed: CUDA_ERROR_LAUNCH_FAILED"));
  fake_.fail("cuEventQuery", 0);
}

TEST_F(ResourcesTest, AModuleIsLoadedOncePerContext) {
  const ContextPointer other = PrimaryContext::retain(*driver_, 1);
  const DeviceModule here(context_, image("trencadis_attention trencadis_merge"), "soft_cap");
  const DeviceModule there(other, image("trencadis_attention trencadis_merge"), "soft_cap");
  EXPECT_EQ(fake_.count("module"), 2);
  EXPECT_NE(here.function("trencadis_merge").function, nullptr);
  EXPECT_STREQ(here.function("trencadis_merge").name, "trencadis_merge of soft_cap");
  EXPECT_THAT(error_text(ErrorKind::device, [&] { there.function("trencadis_append"); }),
              AllOf(HasSubstr("kernel soft_cap has no function 'trencadis_append'"),
                    HasSubstr("cuModuleGetFunction failed: CUDA_ERROR_NOT_FOUND")));
}

TEST_F(ResourcesTest, CodeForAnotherArchitectureNamesTheKernel) {
  fake_.fail("cuModuleLoadData", 209);
  EXPECT_THAT(
      error_text(ErrorKind::device, [&] { DeviceModule(context_, image("f"), "soft_cap"); }),
      AllOf(HasSubstr("kernel soft_cap cannot be loaded: cuModuleLoadData failed: "
                      "CUDA_ERROR_NO_BINARY_FOR_GPU"),
            HasSubstr("no kernel image")));
  fake_.fail("cuModuleLoadData", 0);
}

TEST_F(ResourcesTest, ThreadsHaveContextsOfTheirOwn) {
  const ContextGuard guard(*context_);
  std::thread([&] {
    EXPECT_EQ(fake_.current_device(), -1);
    const DeviceBuffer buffer(context_, 16);
    EXPECT_EQ(fake_.current_device(), -1);
  }).join();
  EXPECT_EQ(fake_.current_device(), 0);
}

TEST_F(ResourcesTest, AReleaseThatFailsIsSilent) {
  DevicePointer kept = 0;
  fake_.fail("cuMemFree_v2", 4);
  {
    const DeviceBuffer buffer(context_, 16);
    kept = buffer.get();
  }
  EXPECT_EQ(fake_.count("device buffer"), 1) << "the driver refused";
  EXPECT_EQ(fake_.current_device(), -1);
  fake_.fail("cuMemFree_v2", 0);
  const ContextGuard guard(*context_);
  driver_->mem_free(kept);
}

}  // namespace
}  // namespace trencadis::cuda
