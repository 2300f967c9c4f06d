#include "backends/cuda/launch_log.h"

#include <fmt/format.h>

#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "backends/cuda/resources.h"
#include "fixture.h"

namespace trencadis::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

LaunchConfig config_of(unsigned grid, Stream stream = nullptr) {
  LaunchConfig config;
  config.grid_x = grid;
  config.block_x = 128;
  config.stream = stream;
  return config;
}

TEST(LaunchLog, EqualLaunchesAreToldTogetherByTheirLast) {
  LaunchLog log(1);
  EXPECT_EQ(log.describe(), "");
  const Kernel append{nullptr, "append"}, attention{nullptr, "attention"};
  char stream = 0;
  const auto handle = reinterpret_cast<Stream>(&stream);
  EXPECT_EQ(log.note(append, config_of(3)), 1u);
  for (int layer = 0; layer < 3; ++layer) {
    log.note(append, config_of(7, handle));
    EXPECT_EQ(log.note(attention, config_of(264, handle)), 3u + 2 * layer);
  }
  const std::string at = ", stream " + fmt::format("{}", static_cast<const void*>(handle));
  EXPECT_EQ(log.describe(), "on cuda:1: attention (grid 264 of 128 threads" + at +
                                ", launch 7, 3 in all), append (grid 7 of 128 threads" + at +
                                ", launch 6, 3 in all), append (grid 3 of 128 threads, stream "
                                "0x0, launch 1)");
}

TEST(LaunchLog, KeepsTheLast) {
  LaunchLog log(0);
  const Kernel early{nullptr, "early"}, late{nullptr, "late"};
  log.note(early, config_of(1));
  for (std::size_t i = 0; i < LaunchLog::kKept - 1; ++i) log.note(late, config_of(1));
  EXPECT_THAT(log.describe(), HasSubstr("early"));
  log.note(late, config_of(1));
  EXPECT_THAT(log.describe(), AllOf(Not(HasSubstr("early")), HasSubstr("launch 65, 64 in all")));
}

TEST(LaunchLog, OfManyThreadsNumbersEveryLaunch) {
  LaunchLog log(0);
  constexpr int kThreads = 4, kEach = 5000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&log, t] {
      const Kernel kernel{nullptr, t % 2 == 0 ? "even" : "odd"};
      for (int i = 0; i < kEach; ++i) {
        log.note(kernel, config_of(1));
        if (i % 100 != 0) continue;
        EXPECT_THAT(log.describe(), HasSubstr("on cuda:0: "));
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(log.note({nullptr, "last"}, config_of(1)), kThreads * kEach + 1u);
}

class KernelFaultTest : public CudaTest {
 protected:
  void TearDown() override { fake_.fault("f", 0); }

  DeviceModule load(const ContextPointer& context, const char* name) {
    constexpr std::string_view kFunctions = "f g";
    return DeviceModule(context, std::as_bytes(std::span(kFunctions.data(), kFunctions.size() + 1)),
                        name);
  }

  ContextPointer context_ = PrimaryContext::retain(*driver_, 0);
};

TEST_F(KernelFaultTest, ALaterCallNamesTheLaunchesThatMayHaveFailed) {
  const ContextPointer other = PrimaryContext::retain(*driver_, 1);
  char handle = 0;
  const auto stream = reinterpret_cast<Stream>(&handle);
  Kernel f;
  {
    // Names outlive their modules.
    const DeviceModule here = load(context_, "soft_cap"), there = load(other, "sigmoid");
    f = here.function("f");
    {
      const ContextGuard guard(*other);
      other->launch(config_of(9), there.function("g"), nullptr);
    }
    fake_.fault("f", 700);
    fake_.hold(stream);
    const ContextGuard guard(*context_);
    context_->launch(config_of(264, stream), f, nullptr);
    driver_->stream_synchronize(nullptr);
    fake_.release(stream);
    const std::string text =
        error_text(ErrorKind::device, [&] { driver_->stream_synchronize(nullptr); });
    EXPECT_THAT(
        text, AllOf(HasSubstr("cuStreamSynchronize failed: CUDA_ERROR_ILLEGAL_ADDRESS (an illegal "
                              "memory access was encountered): a kernel that was launched before"),
                    HasSubstr("on cuda:0: f of soft_cap (grid 264 of 128 threads, stream 0x"),
                    HasSubstr("launch 1)"), HasSubstr("TRENCADIS_DEBUG_CHECKS=1"),
                    Not(HasSubstr("sigmoid"))));
    // All later calls, whoever makes them.
    EXPECT_THAT(error_text(ErrorKind::device, [&] { DeviceBuffer(context_, 16); }),
                HasSubstr("f of soft_cap"));
    EXPECT_THAT(error_text(ErrorKind::device, [&] { context_->launch(config_of(1), f, nullptr); }),
                AllOf(HasSubstr("f of soft_cap cannot be launched on cuda:0: cuLaunchKernelEx "
                                "failed: CUDA_ERROR_ILLEGAL_ADDRESS"),
                      HasSubstr("launch 1)")));
    const ContextGuard healthy(*other);
    driver_->stream_synchronize(nullptr);
    fake_.fault("f", 0);
  }
  fake_.fail("cuStreamSynchronize", 700);
  const ContextGuard guard(*context_);
  EXPECT_THAT(error_text(ErrorKind::device, [&] { driver_->stream_synchronize(nullptr); }),
              HasSubstr("f of soft_cap"));
  fake_.fail("cuStreamSynchronize", 1);
  EXPECT_THAT(error_text(ErrorKind::device, [&] { driver_->stream_synchronize(nullptr); }),
              Not(HasSubstr("soft_cap")))
      << "no kernel's fault";
  fake_.fail("cuStreamSynchronize", 0);
}

TEST_F(KernelFaultTest, ALaunchThatIsWaitedForIsTheOneThatFailed) {
  const DeviceModule module = load(context_, "soft_cap");
  const Kernel f = module.function("f"), g = module.function("g");
  const ContextGuard guard(*context_);
  context_->launch_and_wait(config_of(2), g, nullptr);
  fake_.fault("f", 700);
  EXPECT_THAT(
      error_text(ErrorKind::device, [&] { context_->launch_and_wait(config_of(264), f, nullptr); }),
      "f of soft_cap failed while it ran on cuda:0 (grid 264 of 128 threads, stream 0x0, launch "
      "2): "
      "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)");
  // What was queued before is not taken for the launch.
  EXPECT_THAT(
      error_text(ErrorKind::device, [&] { context_->launch_and_wait(config_of(2), g, nullptr); }),
      AllOf(HasSubstr("cuStreamSynchronize failed"), HasSubstr("f of soft_cap"),
            HasSubstr("launched before this call")));
  fake_.fault("f", 0);
}

TEST_F(KernelFaultTest, AFunctionOfAnotherContextIsNotLaunched) {
  const ContextPointer other = PrimaryContext::retain(*driver_, 1);
  const DeviceModule module = load(context_, "soft_cap");
  const ContextGuard guard(*other);
  EXPECT_THAT(error_text(ErrorKind::device,
                         [&] { other->launch(config_of(1), module.function("f"), nullptr); }),
              HasSubstr("f of soft_cap cannot be launched on cuda:1: cuLaunchKernelEx failed: "
                        "CUDA_ERROR_INVALID_HANDLE"));
}

}  // namespace
}  // namespace trencadis::cuda
