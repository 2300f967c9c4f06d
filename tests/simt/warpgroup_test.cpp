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

// --- Products
// -------------------------------------------------------------------------------------

constexpr int kGroup = 1024;  // bytes of eight rows of one slab

ptx::SharedMatrix matrix_at(int offset) {
  return ptx::SharedMatrix::at(shared_at(offset), kGroup, kGroup);
}

/// All elements of `bytes` bytes from the offset on, by the warpgroup.
void fill(int offset, int bytes, float value) {
  const unsigned pair = ptx::pack<ptx::Half>(value, value);
  for (int i = 16 * (ptx::thread_index() % 128); i < bytes; i += 16 * 128) {
    ptx::store_shared_16(shared_at(offset + i), {{pair, pair, pair, pair}});
  }
}

void set(float (&d)[8][4], float value) {
  for (auto& tile : d) tile[0] = tile[1] = tile[2] = tile[3] = value;
}
bool all_are(const float (&d)[8][4], float value) {
  for (const auto& tile : d) {
    for (const float x : tile) {
      if (x != value) return false;
    }
  }
  return true;
}
bool none_is_a_number(const float (&d)[8][4]) {
  for (const auto& tile : d) {
    for (const float x : tile) {
      if (!std::isnan(x)) return false;
    }
  }
  return true;
}

/// One warpgroup that has 64 rows of ones at 0 and 64 rows of twos at 8 KiB.
std::string with_operands(std::uint64_t seed, const std::function<void()>& body) {
  return complaint({.threads = 128, .shared_bytes = 16 * kGroup, .seed = seed}, [&] {
    fill(0, 8 * kGroup, 1);
    fill(8 * kGroup, 8 * kGroup, 2);
    ptx::show_to_products();
    ptx::sync_cta();
    body();
  });
}

unsigned ones() {
  return ptx::pack<ptx::Half>(1, 1);
}

TEST(Products, ResultsAreThereAfterTheWaitOnly) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_EQ(with_operands(
                  seed,
                  [] {
                    float d[8][4], e[8][4];
                    const unsigned a[4] = {ones(), ones(), ones(), ones()};
                    set(d, 100);
                    set(e, 1000);
                    ptx::begin_products();
                    ptx::multiply_rows<ptx::Half, 8>(d, matrix_at(0), matrix_at(8 * kGroup), false);
                    ptx::multiply_rows<ptx::Half, 8>(d, matrix_at(0), matrix_at(8 * kGroup), true);
                    ptx::commit_products();
                    ptx::multiply_columns<ptx::Half, 8, 0>(e, a, matrix_at(8 * kGroup));
                    ptx::commit_products();
                    EXPECT_TRUE(none_is_a_number(d));
                    EXPECT_TRUE(none_is_a_number(e));
                    ptx::wait_products<2>();
                    EXPECT_TRUE(none_is_a_number(d));
                    ptx::wait_products<1>();
                    EXPECT_TRUE(all_are(d, 64));
                    EXPECT_TRUE(none_is_a_number(e));
                    ptx::wait_products<0>();
                    EXPECT_TRUE(all_are(e, 1032));
                    ptx::wait_products<0>();
                  }),
              "none");
  }
}

TEST(Products, AccumulatorsOfSeveralGroupsComeWithTheLast) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    EXPECT_EQ(with_operands(seed,
                            [] {
                              float d[8][4];
                              set(d, 5);
                              ptx::begin_products();
                              for (int group = 0; group < 2; ++group) {
                                ptx::multiply_rows<ptx::Half, 8>(d, matrix_at(0), matrix_at(0),
                                                                 true);
                                ptx::commit_products();
                              }
                              ptx::wait_products<1>();
                              EXPECT_TRUE(none_is_a_number(d));
                              ptx::wait_products<0>();
                              EXPECT_TRUE(all_are(d, 37));
                            }),
              "none");
  }
}

/// Counts the seeds under which a result is right though an operand changes before the wait.
int right_though(const std::function<void(unsigned (&)[4])>& change) {
  int right = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    bool is_right = true;
    const std::string text = with_operands(seed, [&] {
      float d[8][4];
      unsigned a[4] = {ones(), ones(), ones(), ones()};
      set(d, 0);
      ptx::begin_products();
      ptx::multiply_columns<ptx::Half, 8, 0>(d, a, matrix_at(0));
      ptx::commit_products();
      change(a);
      ptx::wait_products<0>();
      if (!all_are(d, 16)) is_right = false;
    });
    if (text != "none") {
      EXPECT_THAT(text, HasSubstr("multiply_columns<Half>"));
      is_right = false;
    }
    right += is_right ? 1 : 0;
  }
  return right;
}

TEST(Products, OperandsAreReadUpToTheWait) {
  EXPECT_EQ(right_though([](auto&) {}), 20);
  EXPECT_LT(right_though([](auto& a) { a[1] = 0; }), 15);
  EXPECT_LT(right_though([](auto&) { fill(0, 2 * kGroup, 3); }), 15);
  // Also past the emulation's stores, which a stamp gives away.
  EXPECT_LT(right_though([](auto&) { ptx::dynamic_shared()[130] = 3; }), 15);
}

TEST(Products, AndFromTheIssueOn) {
  int right = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    bool is_right = true;
    EXPECT_EQ(with_operands(seed,
                            [&] {
                              char* const first = ptx::dynamic_shared() + ptx::thread_index();
                              const char before = *first;
                              *first = static_cast<char>(0xff);
                              ptx::sync_cta();
                              float d[8][4];
                              ptx::begin_products();
                              ptx::multiply_rows<ptx::Half, 8>(d, matrix_at(0),
                                                               matrix_at(8 * kGroup), false);
                              ptx::commit_products();
                              ptx::sync_cta();
                              *first = before;
                              ptx::sync_cta();
                              ptx::wait_products<0>();
                              if (!all_are(d, 32)) is_right = false;
                            }),
              "none");
    right += is_right ? 1 : 0;
  }
  EXPECT_GT(right, 2);
  EXPECT_LT(right, 15);
}

TEST(Products, TheWarpsOfAWarpgroupDoNotWaitForEachOther) {
  int wrong = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    bool is_right = true;
    const std::string text = with_operands(seed, [&] {
      fill(0, 8 * kGroup, 3);
      ptx::show_to_products();
      float d[8][4];
      ptx::begin_products();
      ptx::multiply_rows<ptx::Half, 8>(d, matrix_at(8 * kGroup), matrix_at(0), false);
      ptx::commit_products();
      ptx::wait_products<0>();
      if (!all_are(d, 96)) is_right = false;
    });
    wrong += is_right && text == "none" ? 0 : 1;
  }
  EXPECT_GT(wrong, 3);
}

// --- A ring whose tiles are multiplied
// ------------------------------------------------------------

constexpr int kMultiplyTiles = 5;
constexpr int kTileBytes = 8 * kGroup;  // 64 rows of 64 elements

/// Where a chunk of 16 bytes of such a tile lies.
int place_of(int row, int chunk) {
  return row / 8 * kGroup + row % 8 * 128 + (chunk ^ row % 8) * 16;
}

/// scores [64, 64] = q [64, 64] times the sum of the tiles of listed rows, transposed.
void multiply_rows_of(Without without, const std::uint16_t* q, const std::uint16_t* rows,
                      const int* list, float* scores) {
  const auto full = [](int stage) { return shared_at(8 * stage); };
  const auto empty = [](int stage) { return shared_at(8 * (kStages + stage)); };
  constexpr int kQuery = kGroup;
  const auto tile = [](int stage) { return kQuery + (1 + stage) * kTileBytes; };
  if (ptx::thread_index() == 0) {
    for (int s = 0; s < kStages; ++s) {
      ptx::make_barrier(full(s), 128);
      ptx::make_barrier(empty(s), 4);
    }
  }
  ptx::sync_cta();
  const int thread = ptx::thread_index() % 128;
  if (ptx::warp_index() < 4) {
    ptx::shrink_registers<40>();
    for (int t = 0; t < kMultiplyTiles; ++t) {
      const int stage = t % kStages;
      if (without != Without::empty) {
        ptx::wait_phase(empty(stage), static_cast<unsigned>(t / kStages % 2 ^ 1));
      }
      for (int row = thread / 8; row < 64; row += 16) {
        ptx::copy_async_run_16(shared_at(tile(stage) + place_of(row, thread % 8)),
                               rows + list[64 * t + row] * 64 + thread % 8 * 8);
      }
      ptx::arrive_with_copies(full(stage));
    }
    return;
  }

  ptx::grow_registers<240>();
  for (int row = thread / 8; row < 64; row += 16) {
    ptx::store_shared_16(shared_at(kQuery + place_of(row, thread % 8)),
                         ptx::load_global_16(q + row * 64 + thread % 8 * 8));
  }
  ptx::show_to_products();
  ptx::sync_threads_named(1, 128);
  float d[8][4];
  for (int t = 0; t < kMultiplyTiles; ++t) {
    const int stage = t % kStages;
    const auto release = [&] {
      if (ptx::lane_index() == 0 && without != Without::release) ptx::arrive(empty(stage));
    };
    if (without != Without::full) {
      ptx::wait_phase(full(stage), static_cast<unsigned>(t / kStages % 2));
    }
    if (without != Without::show) ptx::show_to_products();
    ptx::begin_products();
    for (int k = 0; k < 4; ++k) {
      ptx::multiply_rows<ptx::Half, 8>(d, matrix_at(kQuery) + 32 * k,
                                       matrix_at(tile(stage)) + 32 * k, t + k > 0);
    }
    ptx::commit_products();
    if (without == Without::late_release) release();
    if (without != Without::wait) ptx::wait_products<0>();
    if (without != Without::late_release) release();
  }
  for (int j = 0; j < 8; ++j) {
    for (int c = 0; c < 4; ++c) {
      const int row = thread / 32 * 16 + ptx::lane_index() / 4 + c / 2 * 8;
      scores[64 * row + 8 * j + ptx::lane_index() % 4 * 2 + c % 2] = d[j][c];
    }
  }
  if (without == Without::wait) ptx::wait_products<0>();
}

std::string run_multiplied_ring(Without without, std::uint64_t seed) {
  struct alignas(16) Elements {
    std::uint16_t bits[96 * 64];
    float value(int row, int column) const {
      return ptx::to_float<ptx::Half>(bits[64 * row + column]);
    }
  };
  Elements q, rows;
  for (int i = 0; i < 96 * 64; ++i) {
    q.bits[i] = ptx::from_float<ptx::Half>(static_cast<float>(i * 11 % 5 - 2));
    rows.bits[i] = ptx::from_float<ptx::Half>(static_cast<float>(i * 5 % 7 - 3));
  }
  int list[64 * kMultiplyTiles];
  for (int i = 0; i < 64 * kMultiplyTiles; ++i) list[i] = (i * 31 + static_cast<int>(seed)) % 96;
  std::vector<float> scores(64 * 64);
  const std::string text =
      complaint({.threads = 256, .shared_bytes = kGroup + (1 + kStages) * kTileBytes, .seed = seed},
                [&] { multiply_rows_of(without, q.bits, rows.bits, list, scores.data()); });
  if (text != "none") return text;
  for (int i = 0; i < 64; ++i) {
    for (int j = 0; j < 64; ++j) {
      float sum = 0;
      for (int t = 0; t < kMultiplyTiles; ++t) {
        for (int k = 0; k < 64; ++k) sum += q.value(i, k) * rows.value(list[64 * t + j], k);
      }
      if (scores[static_cast<std::size_t>(64 * i + j)] != sum) return "wrong";
    }
  }
  return "right";
}

TEST(MultipliedRing, IsRightUnderEverySeed) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    EXPECT_EQ(run_multiplied_ring(Without::nothing, seed), "right") << seed;
  }
}

TEST(MultipliedRing, WhatIsLeftOutShows) {
  const auto right = [](Without without) {
    return count_right([=](auto seed) { return run_multiplied_ring(without, seed); }, 16);
  };
  EXPECT_LT(right(Without::full), 6);  // where copies land at once, it is
  EXPECT_EQ(right(Without::empty), 0);
  EXPECT_EQ(right(Without::release), 0);
  EXPECT_EQ(right(Without::wait), 0);
  EXPECT_LT(right(Without::late_release), 12);
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    EXPECT_THAT(run_multiplied_ring(Without::show, seed),
                AllOf(HasSubstr("multiply_rows<Half>"), HasSubstr("show_to_products")));
  }
}

TEST(WrongKernels, Products) {
  const auto multiply = [](float(&d)[8][4]) {
    ptx::multiply_rows<ptx::Half, 8>(d, matrix_at(0), matrix_at(8 * kGroup), false);
  };
  const auto report = [](const std::function<void(float(&)[8][4])>& body) {
    std::string last;
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      last = with_operands(seed, [&] {
        float d[8][4];
        body(d);
      });
      if (last == "none") return last;
    }
    return last;
  };
  EXPECT_THAT(report(multiply),
              AllOf(HasSubstr("multiply_rows<Half>: CTA 0"), HasSubstr("no begin_products")));
  EXPECT_THAT(report([&](auto& d) {
                ptx::begin_products();
                multiply(d);
                ptx::commit_products();
              }),
              HasSubstr("products that it has not waited for"));
  EXPECT_THAT(report([&](auto& d) {
                ptx::begin_products();
                multiply(d);
                ptx::wait_products<0>();  // no commit has closed over it
              }),
              HasSubstr("products that it has not waited for"));
  EXPECT_THAT(report([&](auto& d) {
                ptx::begin_products();
                ptx::multiply_rows<ptx::Half, 8>(d, matrix_at(0), matrix_at(9 * kGroup), false);
                ptx::commit_products();
                ptx::wait_products<0>();
              }),
              AllOf(HasSubstr("multiply_rows<Half>"), HasSubstr("outside")));
  EXPECT_THAT(report([&](auto& d) {
                ptx::begin_products();
                ptx::multiply_rows<ptx::Half, 8>(d, matrix_at(0), {0}, false);
                ptx::commit_products();
                ptx::wait_products<0>();
              }),
              HasSubstr("128-byte swizzle"));
  EXPECT_THAT(report([&](auto& d) {
                ptx::begin_products();
                ptx::multiply_rows<ptx::Half, 8>(
                    d, matrix_at(0), matrix_at(ptx::lane_index() % 2 * 8 * kGroup), false);
              }),
              HasSubstr("the lanes of the warp name different"));
  EXPECT_THAT(report([&](auto& d) {
                ptx::begin_products();
                ptx::multiply_rows<ptx::Half, 8>(
                    d, matrix_at(0), matrix_at(ptx::warp_index() % 2 * 8 * kGroup), false);
              }),
              HasSubstr("others of the warpgroup"));
  EXPECT_THAT(report([&](auto&) {
                if (ptx::warp_index() != 2) ptx::begin_products();
              }),
              AnyOf(HasSubstr("warp 2: it returned without begin_products"),
                    HasSubstr("warp 0: 32 lanes in begin_products")));
  EXPECT_THAT(report([&](auto& d) {
                static thread_local float wide[32 * 4][12][4];
                auto& mine = wide[ptx::thread_index()];
                const unsigned a[4] = {};
                ptx::begin_products();
                ptx::multiply_columns<ptx::Half, 8, 0>(mine, a, matrix_at(0));
                ptx::multiply_columns<ptx::Half, 8, 4>(mine, a, matrix_at(0));
                static_cast<void>(d);
              }),
              HasSubstr("accumulators are those of products under way"));
  EXPECT_THAT(complaint({.threads = 96}, [] { ptx::commit_products(); }),
              HasSubstr("multiple of four"));
}

TEST(WrongKernels, WhatWasNotShownToProducts) {
  const auto report = [](bool writer_shows, bool reader_shows, std::uint64_t seed) {
    return complaint({.threads = 128, .shared_bytes = 16 * kGroup, .seed = seed}, [=] {
      fill(0, 16 * kGroup, 1);
      if (writer_shows) ptx::show_to_products();
      ptx::sync_cta();
      if (reader_shows) ptx::show_to_products();
      float d[8][4];
      ptx::begin_products();
      ptx::multiply_rows<ptx::BFloat, 8>(d, matrix_at(0), matrix_at(8 * kGroup), false);
      ptx::commit_products();
      ptx::wait_products<0>();
    });
  };
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    EXPECT_EQ(report(true, false, seed), "none");
    EXPECT_EQ(report(false, true, seed), "none");
    EXPECT_THAT(report(false, false, seed),
                AllOf(HasSubstr("multiply_rows<BFloat>"), HasSubstr("show_to_products")));
  }
}

TEST(Registers, AreTheWarpgroups) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    EXPECT_EQ(complaint({.threads = 256, .seed = seed},
                        [] {
                          if (ptx::warp_index() < 4) {
                            ptx::shrink_registers<24>();
                          } else {
                            ptx::grow_registers<240>();
                          }
                        }),
              "none");
    EXPECT_THAT(complaint({.threads = 128, .seed = seed},
                          [] {
                            if (ptx::warp_index() < 2) {
                              ptx::shrink_registers<24>();
                            } else {
                              ptx::grow_registers<240>();
                            }
                          }),
                HasSubstr("others of the warpgroup have been in"));
  }
}

}  // namespace
}  // namespace trencadis
