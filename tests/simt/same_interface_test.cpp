// The kernel with every function of the PTX room, which device compilers see in tests/codegen, is
// host code against the emulation: both have the same names and take the same arguments. So is one
// of what only sm_90a has.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>

#include "simt/launch.h"

#define __global__
#define BFLOAT_EVERYWHERE
#include "codegen/device_ptx.cu"
#include "simt/device_sm90.cu"
#undef __global__

namespace trencadis {
namespace {

TEST(SameInterface, TheKernelOfEveryInstructionRuns) {
  constexpr int kCtas = 3;
  alignas(16) std::array<char, 64 * 16> in{};
  alignas(16) std::array<char, 64 * 16> out{};
  int count = 0;
  simt::launch({.ctas = kCtas, .threads = 64, .shared_bytes = 1024, .seed = 1},
               [&] { ptx::use_every_instruction(in.data(), out.data(), &count); });
  EXPECT_EQ(count, kCtas * 64);
  EXPECT_EQ(simt::statistics().mma, kCtas * 2u * 2u);
  EXPECT_EQ(simt::statistics().copies, kCtas * 64u);
}

TEST(SameInterface, TheKernelOfEverySm90InstructionRuns) {
  alignas(16) std::array<char, 16384> in{};
  std::array<float, 128> out{};
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    out.fill(0);
    simt::launch({.threads = 128, .shared_bytes = 32768, .seed = seed},
                 [&] { ptx::use_every_sm90_instruction(in.data(), out.data()); });
    for (const float sum : out) EXPECT_EQ(sum, 4 * 2.0f);
    EXPECT_EQ(simt::statistics().copies, 1024u);
    EXPECT_EQ(simt::statistics().barriers, 2u);
  }
}

}  // namespace
}  // namespace trencadis
