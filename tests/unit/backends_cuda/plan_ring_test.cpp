// What a failing driver leaves of the slots that plans are copied from.
#include "backends/cuda/plan_ring.h"

#include <cstring>

#include "unit/backends_cuda/fixture.h"

namespace trencadis::cuda {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kBytes = 64;
constexpr int kLaunchFailed = 719;

class PlanRingTest : public CudaTest {
 protected:
  void TearDown() override { EXPECT_EQ(fake_.count("freed in use"), 0); }

  Stream stream() { return reinterpret_cast<Stream>(&stream_); }

  /// A plan of equal bytes.
  void submit(PlanRing& ring, const DeviceBuffer& device, int value) {
    std::memset(ring.acquire(kBytes), value, kBytes);
    ring.submit(device.get(), kBytes, stream());
  }
  void expect_submit_fails(PlanRing& ring, const DeviceBuffer& device, int value) {
    EXPECT_THAT(error_text(ErrorKind::device, [&] { submit(ring, device, value); }),
                HasSubstr("failed: CUDA_ERROR_LAUNCH_FAILED"));
  }
  /// Device memory is the host's.
  static int byte_of(const DeviceBuffer& device) {
    return *reinterpret_cast<const unsigned char*>(device.get());
  }

  char stream_ = 0;
  ContextPointer context_ = PrimaryContext::retain(*driver_, 0);
  ContextGuard guard_{*context_};
  DeviceBuffer device_{context_, kBytes}, other_{context_, kBytes};
};

TEST_F(PlanRingTest, MemoryThatCannotBeHadLosesNoSlot) {
  PlanRing ring(context_);
  submit(ring, device_, 1);
  fake_.fail("cuMemHostAlloc", 2);
  error_text(ErrorKind::device, [&] { ring.acquire(10 * kBytes); });
  fake_.hold(stream());
  submit(ring, device_, 2);
  error_text(ErrorKind::device, [&] { ring.acquire(kBytes); });
  fake_.fail("cuMemHostAlloc", 0);
  submit(ring, other_, 3);
  EXPECT_EQ(ring.slots(), 2u);
  fake_.release(stream());
  EXPECT_EQ(byte_of(device_), 2);
  EXPECT_EQ(byte_of(other_), 3);
}

TEST_F(PlanRingTest, ACopyThatFailsLeavesTheSlotForTheNext) {
  PlanRing ring(context_);
  submit(ring, device_, 1);
  fake_.fail("cuMemcpyHtoDAsync_v2", kLaunchFailed);
  expect_submit_fails(ring, device_, 2);
  fake_.fail("cuMemcpyHtoDAsync_v2", 0);
  EXPECT_EQ(byte_of(device_), 1);
  submit(ring, device_, 3);
  EXPECT_EQ(byte_of(device_), 3);
  EXPECT_EQ(ring.slots(), 1u);
}

// The copy waits in the stream and no event tells when it is done.
TEST_F(PlanRingTest, ASlotWhoseEventFailsIsUsedAgainOnceTheStreamIsDone) {
  PlanRing ring(context_);
  submit(ring, device_, 1);
  fake_.hold(stream());
  fake_.fail("cuEventRecord", kLaunchFailed);
  expect_submit_fails(ring, device_, 2);
  fake_.fail("cuEventRecord", 0);
  submit(ring, other_, 3);
  fake_.release(stream());
  EXPECT_EQ(byte_of(device_), 2);
  EXPECT_EQ(byte_of(other_), 3);
  EXPECT_EQ(ring.slots(), 1u);
}

TEST_F(PlanRingTest, ASlotThatNothingTellsOfIsSetAside) {
  DeviceBuffer third(context_, kBytes);
  PlanRing ring(context_);
  fake_.hold(stream());
  submit(ring, third, 1);
  fake_.fail("cuEventRecord", kLaunchFailed);
  fake_.fail("cuStreamSynchronize", kLaunchFailed);
  expect_submit_fails(ring, device_, 2);
  fake_.fail("cuEventRecord", 0);
  fake_.fail("cuStreamSynchronize", 0);
  EXPECT_EQ(ring.slots(), 1u);
  submit(ring, other_, 3);
  submit(ring, other_, 4);
  fake_.release(stream());
  EXPECT_EQ(byte_of(third), 1);
  EXPECT_EQ(byte_of(device_), 2) << "the copy read what was written for it";
  EXPECT_EQ(byte_of(other_), 4);
  for (int i = 0; i < 10; ++i) submit(ring, other_, i);
  EXPECT_EQ(byte_of(other_), 9);
  EXPECT_EQ(ring.slots(), 3u);
}

TEST_F(PlanRingTest, ASlotWhoseCopyIsDoneIsUsedAgainBeforeOlderOnes) {
  PlanRing ring(context_);
  fake_.hold(stream());
  for (int i = 0; i < 5; ++i) submit(ring, device_, i);
  EXPECT_EQ(ring.slots(), 5u);
  fake_.release(stream());
  std::byte* const memory = ring.acquire(kBytes);
  ring.submit(device_.get(), kBytes, stream());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ring.acquire(kBytes), memory);
    ring.submit(device_.get(), kBytes, stream());
  }
  EXPECT_EQ(ring.acquire(kBytes), memory) << "acquired twice";
  submit(ring, device_, 7);
  EXPECT_EQ(byte_of(device_), 7);
  // The others are there when they are needed, each before one is added.
  fake_.hold(stream());
  for (int i = 10; i < 16; ++i) submit(ring, other_, i);
  EXPECT_EQ(ring.slots(), 6u);
  fake_.release(stream());
  EXPECT_EQ(byte_of(other_), 15);
}

TEST_F(PlanRingTest, ARingWaitsForItsCopies) {
  fake_.hold(stream());
  {
    PlanRing ring(context_);
    submit(ring, device_, 1);
    submit(ring, other_, 2);
  }
  EXPECT_EQ(byte_of(device_), 1);
  EXPECT_EQ(byte_of(other_), 2);
  fake_.release(stream());
}

}  // namespace
}  // namespace trencadis::cuda
