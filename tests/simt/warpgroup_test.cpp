// Warpgroups of unlike work: a ring of stages between who fetches and who computes, and products
// that are under way while the warps go on. Then the same kernels with a wait left out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda/ptx/convert.h"
#include "cuda/ptx/cp_async.h"
#include "cuda/ptx/mbarrier.h"
#include "cuda/ptx/memory.h"
#include "cuda/ptx/thread.h"
#include "cuda/ptx/warpgroup.h"
#include "simt/launch.h"

namespace trencadis {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

std::string complaint(const simt::LaunchConfig& config, const std::function<void()>& kernel) {
  try {
    simt::launch(config, kernel);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "none";
}

ptx::SharedAddress shared_at(int offset) {
  return ptx::shared_place(ptx::dynamic_shared() + offset);
}

/// What a kernel may leave out.
enum class Without { nothing, full, empty, release, late_release, show, wait };

// --- A ring that adds rows up
// ---------------------------------------------------------------------

constexpr int kStages = 2;
constexpr int kRows = 16;     // of a tile
constexpr int kColumns = 32;  // floats
constexpr int kTiles = 7;

/// Warps 0 and 1 fetch the rows that are listed, 2 and 3 add them up, each in its half of the
/// columns, a lane a float.
void add_rows(Without without, const float* rows, const int* list, float* sums) {
  constexpr int kTileBytes = kRows * kColumns * 4;
  const auto full = [](int stage) { return shared_at(8 * stage); };
  const auto empty = [](int stage) { return shared_at(8 * (kStages + stage)); };
  const auto tile = [](int stage) { return shared_at(64 + stage * kTileBytes); };
  if (ptx::thread_index() == 0) {
    for (int s = 0; s < kStages; ++s) {
      ptx::make_barrier(full(s), 64);
      ptx::make_barrier(empty(s), 2);
    }
  }
  ptx::sync_cta();
  float sum = 0;
  for (int t = 0; t < kTiles; ++t) {
    const int stage = t % kStages;
    const auto parity = static_cast<unsigned>(t / kStages % 2);
    if (ptx::warp_index() < 2) {
      if (without != Without::empty) ptx::wait_phase(empty(stage), parity ^ 1);
      for (int i = ptx::thread_index(); i < kRows * kColumns / 4; i += 64) {
        const int row = i / (kColumns / 4);
        const int chunk = i % (kColumns / 4);
        ptx::copy_async_run_16(tile(stage) + 16 * i,
                               rows + list[t * kRows + row] * kColumns + chunk * 4);
      }
      ptx::arrive_with_copies(full(stage));
    } else {
      const auto release = [&] {
        ptx::sync_warp();
        if (ptx::lane_index() == 0 && without != Without::release) ptx::arrive(empty(stage));
      };
      if (without != Without::full) ptx::wait_phase(full(stage), parity);
      if (without == Without::late_release) release();
      const int column = (ptx::warp_index() - 2) * 16 + ptx::lane_index() % 16;
      for (int row = ptx::lane_index() / 16; row < kRows; row += 2) {
        sum += ptx::load_shared<float>(tile(stage) + 4 * (row * kColumns + column));
      }
      if (without != Without::late_release) release();
    }
  }
  if (ptx::warp_index() < 2) return;
  sum += ptx::shuffle_xor(sum, 16);
  if (ptx::lane_index() < 16) sums[(ptx::warp_index() - 2) * 16 + ptx::lane_index()] = sum;
}

/// Right, wrong, or what was reported.
std::string run_ring(Without without, std::uint64_t seed) {
  alignas(16) float rows[64 * kColumns];
  for (int i = 0; i < 64 * kColumns; ++i) rows[i] = static_cast<float>(i * 7 % 1001);
  int list[kTiles * kRows];
  for (int i = 0; i < kTiles * kRows; ++i) list[i] = (i * 29 + static_cast<int>(seed)) % 64;
  float sums[kColumns] = {};
  const std::string text =
      complaint({.threads = 128, .shared_bytes = 64 + kStages * kRows * kColumns * 4, .seed = seed},
                [&] { add_rows(without, rows, list, sums); });
  if (text != "none") return text;
  for (int column = 0; column < kColumns; ++column) {
    float sum = 0;
    for (const int row : list) sum += rows[row * kColumns + column];
    if (sums[column] != sum) return "wrong";
  }
  return "right";
}

int count_right(const std::function<std::string(std::uint64_t)>& run, int seeds) {
  int right = 0;
  for (int seed = 0; seed < seeds; ++seed) {
    right += run(static_cast<std::uint64_t>(seed)) == "right" ? 1 : 0;
  }
  return right;
}

TEST(Ring, IsRightUnderEverySeed) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    EXPECT_EQ(run_ring(Without::nothing, seed), "right") << seed;
  }
}

TEST(Ring, WhatIsLeftOutShows) {
  EXPECT_EQ(count_right([](auto seed) { return run_ring(Without::full, seed); }, 20), 0);
  EXPECT_EQ(count_right([](auto seed) { return run_ring(Without::empty, seed); }, 20), 0);
  EXPECT_LT(count_right([](auto seed) { return run_ring(Without::late_release, seed); }, 20), 12);
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    EXPECT_THAT(run_ring(Without::release, seed),
                AllOf(HasSubstr("warp 0: 32 lanes in wait_phase"),
                      HasSubstr("warp 2: 32 lanes in wait_phase")));
  }
}

}  // namespace
}  // namespace trencadis
