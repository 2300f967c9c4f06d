// Memory, streams, graphs and clocks of the host; a GPU's are used by the tests that run there.
#include <gtest/gtest.h>
#include <trencadis/device.h>

#include <cstdint>
#include <vector>

#include "support/expect_error.h"

namespace trencadis {
namespace {

using testing::expect_error;

constexpr Device kHost{DeviceKind::cpu, 0};

TEST(DeviceMemory, KeepsWhatWasUploaded) {
  DeviceMemory memory(kHost, 100);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % 256, 0u);
  const std::vector<std::uint8_t> bytes{1, 2, 3};
  memory.upload(bytes.data(), 3, 97);
  std::vector<std::uint8_t> back(3);
  memory.download(back.data(), 3, 97);
  EXPECT_EQ(back, bytes);
  DeviceMemory moved = std::move(memory);
  moved.download(back.data(), 1, 98);
  EXPECT_EQ(back[0], 2);
}

TEST(DeviceMemory, IsFilledToItsEnd) {
  DeviceMemory memory(kHost, 300);
  memory.fill(7);
  std::vector<std::uint8_t> bytes(300);
  memory.download(bytes.data(), 300);
  EXPECT_EQ(bytes, std::vector<std::uint8_t>(300, 7));
  DeviceMemory(kHost, 0).fill(7);
}

TEST(DeviceMemory, CopiesStayInside) {
  expect_error(ErrorKind::invalid_argument, {"bytes is -1"}, [] { DeviceMemory(kHost, -1); });
  DeviceMemory memory(kHost, 8);
  char byte = 0;
  expect_error(ErrorKind::invalid_argument, {"1 bytes from byte 8", "0 .. 8"},
               [&] { memory.upload(&byte, 1, 8); });
  expect_error(ErrorKind::invalid_argument, {"from byte -1"},
               [&] { memory.download(&byte, 1, -1); });
  memory.upload(nullptr, 0, 8);
  DeviceMemory(kHost, 0).download(nullptr, 0);
}

TEST(DeviceMemory, MoreThanThereIsIsRefused) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer ends the process where memory cannot be had";
#endif
  expect_error(ErrorKind::out_of_capacity, {"1152921504606846976 bytes"},
               [] { DeviceMemory(kHost, std::int64_t{1} << 60); });
}

TEST(DeviceGraph, ReplaysWhatWasCaptured) {
  DeviceStream stream(kHost);
  EXPECT_EQ(stream.handle(), nullptr);
  int runs = 0;
  const DeviceGraph graph(stream, [&] { ++runs; });
  const int captured = runs;
  graph.launch(stream);
  graph.launch(stream);
  stream.synchronize();
  EXPECT_EQ(runs - captured, 2);
}

TEST(DeviceTimer, MeasuresForward) {
  DeviceStream stream(kHost);
  DeviceTimer timer(kHost);
  timer.start(stream);
  timer.stop(stream);
  EXPECT_GE(timer.microseconds(), 0.0);
}

}  // namespace
}  // namespace trencadis
