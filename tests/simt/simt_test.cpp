// The emulated machine: meetings of threads, asynchronous copies, and kernels that are wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda/ptx/cp_async.h"
#include "cuda/ptx/ldmatrix.h"
#include "cuda/ptx/mbarrier.h"
#include "cuda/ptx/memory.h"
#include "cuda/ptx/mma.h"
#include "cuda/ptx/sync.h"
#include "cuda/ptx/thread.h"
#include "simt/launch.h"

namespace trencadis {
namespace {

using simt::launch;
using simt::LaunchConfig;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string complaint(const LaunchConfig& config, const std::function<void()>& kernel) {
  try {
    launch(config, kernel);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "none";
}

TEST(Simt, RunsEveryThreadOnce) {
  std::vector<int> runs(3 * 64);
  launch({.ctas = 3, .threads = 64}, [&] {
    EXPECT_EQ(ptx::num_ctas(), 3);
    EXPECT_EQ(ptx::cta_threads(), 64);
    EXPECT_EQ(ptx::thread_index(), ptx::warp_index() * 32 + ptx::lane_index());
    runs[static_cast<std::size_t>(ptx::cta_index() * 64 + ptx::thread_index())] += 1;
  });
  EXPECT_EQ(runs, std::vector<int>(3 * 64, 1));
  launch({.ctas = 0}, [] { FAIL(); });
}

TEST(Simt, WarpCollectives) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    launch({.threads = 96, .seed = seed}, [] {
      const int lane = ptx::lane_index();
      const int base = 1000 * ptx::warp_index();
      EXPECT_EQ(ptx::shuffle_xor(base + lane, 5), base + (lane ^ 5));
      EXPECT_EQ(ptx::shuffle(base + lane, (lane + 1) % 32), base + (lane + 1) % 32);
      float sum = static_cast<float>(lane);
      for (int mask = 16; mask > 0; mask /= 2) sum += ptx::shuffle_xor(sum, mask);
      EXPECT_EQ(sum, 496.0f);
      EXPECT_TRUE(ptx::any_in_warp(lane == 17));
      EXPECT_FALSE(ptx::any_in_warp(false));
    });
  }
}

/// Each thread writes its word and reads that of one far away; returns the number of wrong reads.
int exchange(std::uint64_t seed, const std::function<void()>& sync) {
  int wrong = 0;
  launch({.threads = 128, .shared_bytes = 128 * sizeof(int), .seed = seed}, [&] {
    int* const shared = reinterpret_cast<int*>(ptx::dynamic_shared());
    const int other = 127 - ptx::thread_index();
    for (int round = 0; round < 4; ++round) {
      shared[ptx::thread_index()] = 1000 * round + ptx::thread_index();
      sync();
      if (shared[other] != 1000 * round + other) wrong += 1;
      sync();
    }
  });
  return wrong;
}

TEST(Simt, BarriersOrderAndTheirLackShows) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_EQ(exchange(seed, [] { ptx::sync_cta(); }), 0) << seed;
    EXPECT_EQ(simt::statistics().barriers, 8u);
    EXPECT_GT(exchange(seed, [] {}), 0) << seed;
  }
  int seen = 0;  // a barrier of too few threads: some seeds are enough
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    seen += exchange(seed, [] { ptx::sync_warp(); }) > 0 ? 1 : 0;
  }
  EXPECT_GT(seen, 10);
}

TEST(Simt, ASeedSaysEverything) {
  const auto trace = [](std::uint64_t seed) {
    std::vector<int> order;
    launch({.ctas = 2, .threads = 64, .seed = seed}, [&] {
      for (int i = 0; i < 3; ++i) {
        order.push_back(ptx::cta_index() * 64 + ptx::thread_index());
        ptx::sync_warp();
      }
    });
    return order;
  };
  EXPECT_EQ(trace(1), trace(1));
  EXPECT_NE(trace(1), trace(2));
}

TEST(Simt, NamedBarriersAreApart) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    int first[4] = {};
    launch({.threads = 128, .seed = seed}, [&] {
      const int half = ptx::warp_index() / 2;
      for (int round = 0; round < (half == 0 ? 3 : 5); ++round) {
        if (ptx::lane_index() == 0) first[ptx::warp_index()] = round;
        ptx::sync_threads_named(1 + half, 64);
        EXPECT_EQ(first[ptx::warp_index() ^ 1], round);
        ptx::sync_threads_named(1 + half, 64);
      }
      ptx::sync_cta();
    });
    EXPECT_EQ(simt::statistics().barriers, 6u + 10u + 1u);
  }
}

/// Two halves of the CTA take turns; returns how often one was there in the other's.
int take_turns(std::uint64_t seed, bool waits) {
  int meetings = 0;
  int inside[2] = {};
  launch({.threads = 128, .seed = seed}, [&] {
    const int half = ptx::warp_index() / 2;
    // Barrier 1 + h: it is half h's turn.
    if (half == 1) ptx::arrive_threads_named(1, 128);
    for (int round = 0; round < 4; ++round) {
      if (waits) ptx::sync_threads_named(1 + half, 128);
      inside[half] += 1;
      ptx::sync_warp();
      if (inside[1 - half] != 0) meetings += 1;
      ptx::sync_warp();
      inside[half] -= 1;
      if (waits && (half == 0 || round < 3)) ptx::arrive_threads_named(2 - half, 128);
    }
  });
  return meetings;
}

TEST(Simt, WarpgroupsTakeTurns) {
  int seen = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_EQ(take_turns(seed, true), 0) << seed;
    EXPECT_EQ(simt::statistics().barriers, 8u);
    seen += take_turns(seed, false) > 0 ? 1 : 0;
  }
  EXPECT_GT(seen, 3);
}

TEST(Simt, SharedMemoryStartsAsNaN) {
  launch({.ctas = 2, .shared_bytes = 256}, [] {
    float* const shared = reinterpret_cast<float*>(ptx::dynamic_shared());
    EXPECT_TRUE(std::isnan(shared[ptx::lane_index()]));
    ptx::sync_warp();
    shared[ptx::lane_index()] = 1;
  });
}

struct alignas(16) Line {
  float x[4];
};

TEST(AsyncCopy, LandsAsLateAsTheWaitsAllow) {
  const Line lines[3] = {{{1, 2, 3, 4}}, {{5, 6, 7, 8}}, {{9, 9, 9, 9}}};
  launch({.shared_bytes = 3 * 32 * sizeof(Line)}, [&] {
    Line* const mine = reinterpret_cast<Line*>(ptx::dynamic_shared()) + 3 * ptx::lane_index();
    mine[0].x[0] = 17;
    ptx::copy_async_16(&mine[0], &lines[0], true);
    ptx::commit_copies();
    ptx::copy_async_16(&mine[1], &lines[1], false);
    ptx::commit_copies();
    ptx::copy_async_16(&mine[2], &lines[2], true);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(mine[i].x[0]));
    ptx::wait_copies<2>();
    EXPECT_TRUE(std::isnan(mine[0].x[0]));
    ptx::wait_copies<1>();
    EXPECT_EQ(mine[0].x[3], 4.0f);
    EXPECT_TRUE(std::isnan(mine[1].x[0]));
    ptx::wait_copies<0>();
    EXPECT_EQ(mine[1].x[1], 0.0f);  // not valid: zeros
    EXPECT_TRUE(std::isnan(mine[2].x[0])) << "no commit has closed over it";
    ptx::commit_copies();
    ptx::wait_copies<0>();
    EXPECT_EQ(mine[2].x[0], 9.0f);
  });
  EXPECT_EQ(simt::statistics().copies, 96u);
}

TEST(AsyncCopy, ChecksAddresses) {
  alignas(16) static const char source[64] = {};
  const auto copy = [](std::ptrdiff_t to, std::ptrdiff_t from) {
    return complaint({.shared_bytes = 64},
                     [=] { ptx::copy_async_16(ptx::dynamic_shared() + to, source + from, true); });
  };
  EXPECT_EQ(copy(48, 16), "none");
  EXPECT_THAT(copy(56, 16), HasSubstr("outside"));
  EXPECT_THAT(copy(64, 16), HasSubstr("outside"));
  EXPECT_THAT(copy(-16, 16), AllOf(HasSubstr("outside"), HasSubstr("offset -16")));
  EXPECT_THAT(copy(8, 16), HasSubstr("not a multiple of 16"));
  EXPECT_THAT(copy(16, 4), AllOf(HasSubstr("copy_async_16: CTA 0, warp 0"), HasSubstr("multiple")));
}

ptx::SharedAddress shared_at(int offset) {
  return ptx::shared_place(ptx::dynamic_shared() + offset);
}

/// Thread 0 makes a barrier at each of the offsets.
void make_barriers(int arrivals, std::initializer_list<int> offsets) {
  if (ptx::thread_index() == 0) {
    for (const int offset : offsets) ptx::make_barrier(shared_at(offset), arrivals);
  }
  ptx::sync_cta();
}

TEST(PhaseBarriers, CountArrivalsAndWaitByParity) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    int written = 0;
    int read = 0;
    launch({.threads = 64, .shared_bytes = 32, .seed = seed}, [&] {
      make_barriers(32, {0, 24});
      const bool writes = ptx::warp_index() == 0;
      ptx::wait_phase(shared_at(0), 1);  // as if the phase before the first were complete
      ptx::sync_cta();
      for (int round = 0; round < 5; ++round) {
        const auto parity = static_cast<unsigned>(round % 2);
        if (writes) {
          ptx::wait_phase(shared_at(24), parity ^ 1);
          EXPECT_GE(read, 32 * round);
          written += 1;
          ptx::arrive(shared_at(0));
        } else {
          ptx::wait_phase(shared_at(0), parity);
          ptx::wait_phase(shared_at(0), parity);  // and again
          EXPECT_EQ(written, 32 * round + 32);
          read += 1;
          ptx::arrive(shared_at(24));
        }
      }
    });
  }
}

TEST(PhaseBarriers, CopiesLandByThemselvesAndLate) {
  const Line lines[2] = {{{1, 2, 3, 4}}, {{5, 6, 7, 8}}};
  int late = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    launch({.shared_bytes = 16 + 2 * 32 * sizeof(Line), .seed = seed}, [&] {
      make_barriers(32, {0});
      Line* const mine =
          reinterpret_cast<Line*>(ptx::dynamic_shared() + 16) + 2 * ptx::lane_index();
      ptx::copy_async_run_16(ptx::shared_place(&mine[0]), &lines[0]);
      ptx::arrive_with_copies(shared_at(0));
      EXPECT_TRUE(std::isnan(mine[0].x[0]));
      ptx::copy_async_16(&mine[1], &lines[1], true);
      ptx::commit_copies();
      ptx::sync_warp();
      if (std::isnan(mine[0].x[0])) late += 1;
      ptx::wait_phase(shared_at(0), 0);
      EXPECT_EQ(mine[0].x[3], 4.0f);
      EXPECT_TRUE(std::isnan(mine[1].x[0])) << "it was started after the arrival";
      ptx::wait_copies<0>();
      EXPECT_EQ(mine[1].x[3], 8.0f);
    });
    EXPECT_EQ(simt::statistics().copies, 64u);
  }
  EXPECT_GT(late, 5 * 32);
  EXPECT_LT(late, 20 * 32);
}

TEST(PhaseBarriers, CopiesThatHaveLandedBeforeArriveToo) {
  const Line line = {{1, 2, 3, 4}};
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    launch({.shared_bytes = 16 + 32 * sizeof(Line), .seed = seed}, [&] {
      make_barriers(64, {0});
      const auto mine = shared_at(16 * (1 + ptx::lane_index()));
      for (const bool waits : {true, false}) {
        ptx::copy_async_run_16(mine, &line);
        ptx::commit_copies();
        ptx::arrive_with_copies(shared_at(0));
        if (waits) ptx::wait_copies<0>();
      }
      ptx::wait_phase(shared_at(0), 0);
      EXPECT_EQ(ptx::load_shared_16(mine).w[0], std::bit_cast<unsigned>(1.0f));
    });
  }
}

TEST(PhaseBarriers, ASourceThatChangesBeforeTheyLandShows) {
  int wrong = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Line lines[32] = {};
    launch({.shared_bytes = 16 + 32 * sizeof(Line), .seed = seed}, [&] {
      make_barriers(32, {0});
      const auto mine = shared_at(16 * (1 + ptx::lane_index()));
      ptx::copy_async_run_16(mine, &lines[ptx::lane_index()]);
      ptx::arrive_with_copies(shared_at(0));
      lines[ptx::lane_index()].x[0] = 1;
      ptx::wait_phase(shared_at(0), 0);
      if (ptx::load_shared<float>(mine) != 0) wrong += 1;
    });
  }
  EXPECT_GT(wrong, 0);
}

TEST(WrongKernels, PhaseBarriers) {
  const auto kernel = [](const std::function<void()>& body, std::uint64_t seed = 0) {
    return complaint({.threads = 64, .shared_bytes = 64, .seed = seed}, [&] {
      make_barriers(32, {0});
      body();
    });
  };
  EXPECT_THAT(kernel([] { ptx::arrive(shared_at(8)); }),
              AllOf(HasSubstr("arrive: CTA 0"), HasSubstr("offset 8 no barrier was made")));
  EXPECT_THAT(kernel([] { ptx::wait_phase(shared_at(4), 0); }),
              AllOf(HasSubstr("wait_phase"), HasSubstr("not a multiple of 8")));
  EXPECT_THAT(kernel([] { ptx::arrive_with_copies(shared_at(64)); }),
              AllOf(HasSubstr("arrive_with_copies"), HasSubstr("outside")));
  EXPECT_THAT(kernel([] { ptx::make_barrier(shared_at(60), 1); }), HasSubstr("outside"));
  EXPECT_THAT(kernel([] { ptx::make_barrier(shared_at(8), 0); }), HasSubstr("0 arrivals"));
  EXPECT_THAT(kernel([] { ptx::make_barrier(shared_at(0), 1); }), HasSubstr("second time"));
  EXPECT_THAT(kernel([] { ptx::wait_phase(shared_at(0), 2); }), HasSubstr("0 and 1"));
  EXPECT_THAT(kernel([] {
                ptx::store_shared(shared_at(0), ptx::thread_index());
                ptx::arrive(shared_at(0));
              }),
              HasSubstr("written over"));
  EXPECT_THAT(kernel([] { ptx::wait_phase(shared_at(0), 0); }),
              AllOf(HasSubstr("warp 0: 32 lanes in wait_phase"), HasSubstr("warp 1: 32 lanes in")));
  EXPECT_THAT(
      kernel([] {
        if (ptx::warp_index() == 0) {
          ptx::wait_phase(shared_at(0), 0);
        } else if (ptx::lane_index() != 0) {
          ptx::arrive(shared_at(0));
        }
      }),
      AllOf(HasSubstr("warp 0: 32 lanes in wait_phase"), HasSubstr("warp 1: 32 lanes returned")));
  // Twice the arrivals: with copies at once, or a phase that goes by.
  int reported = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const std::string text = kernel([] { ptx::arrive_with_copies(shared_at(0)); }, seed);
    if (text != "none") {
      EXPECT_THAT(text, AllOf(HasSubstr("arrive_with_copies"), HasSubstr("more than the 32")));
      reported += 1;
    }
    EXPECT_THAT(kernel(
                    [] {
                      ptx::arrive(shared_at(0));
                      ptx::wait_phase(shared_at(0), 0);
                    },
                    seed),
                HasSubstr("wait_phase"));
  }
  EXPECT_EQ(reported, 10);
}

TEST(WrongKernels, AddressesOfMatrixRows) {
  unsigned r[4];
  EXPECT_THAT(
      complaint({.shared_bytes = 128}, [&] { ptx::load_matrix_x4(r, ptx::dynamic_shared() + 8); }),
      AllOf(HasSubstr("load_matrix_x4"), HasSubstr("multiple of 16")));
  EXPECT_THAT(complaint({.shared_bytes = 128},
                        [&] { ptx::load_matrix_x4(r, ptx::dynamic_shared() + 128); }),
              AllOf(HasSubstr("load_matrix_x4"), HasSubstr("outside")));
}

TEST(WrongKernels, WritesPastSharedMemory) {
  EXPECT_THAT(complaint({.shared_bytes = 100}, [] { ptx::dynamic_shared()[100] = 1; }),
              HasSubstr("CTA 0 wrote past the end"));
}

TEST(WrongKernels, LanesInDifferentCollectives) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const std::string text = complaint({.ctas = 1, .threads = 64, .seed = seed}, [] {
      if (ptx::thread_index() == 40) {
        ptx::sync_warp();
      } else {
        ptx::any_in_warp(true);
      }
    });
    EXPECT_THAT(
        text, AllOf(HasSubstr("CTA 0, warp 1"), HasSubstr("sync_warp"), HasSubstr("any_in_warp")));
  }
}

TEST(WrongKernels, ALaneHasReturned) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const std::string text = complaint({.threads = 64, .seed = seed}, [] {
      float d[4] = {};
      const unsigned a[4] = {};
      if (ptx::thread_index() != 3) ptx::mma_16x8x16<ptx::Half>(d, a, 0, 0);
    });
    EXPECT_THAT(text, AllOf(HasSubstr("mma_16x8x16<Half>: CTA 0, warp 0"), HasSubstr("return")));
  }
}

TEST(WrongKernels, Deadlocks) {
  EXPECT_THAT(complaint({.threads = 64},
                        [] {
                          if (ptx::warp_index() == 1) ptx::sync_cta();
                        }),
              AllOf(HasSubstr("CTA 0: no thread can run"), HasSubstr("warp 0: 32 lanes returned"),
                    HasSubstr("warp 1: 32 lanes in sync_cta")));
  EXPECT_THAT(complaint({.threads = 64},
                        [] {
                          if (ptx::thread_index() == 7) {
                            ptx::sync_cta();
                          } else {
                            ptx::shuffle(1, 0);
                          }
                        }),
              AllOf(HasSubstr("1 lanes in sync_cta"), HasSubstr("31 lanes in shuffle")));
  static int flag;
  EXPECT_THAT(complaint({},
                        [] {
                          while (ptx::atomic_add(&flag, 0) == 0) {
                          }
                        }),
              AllOf(HasSubstr("atomic_add: CTA 0, warp 0"), HasSubstr("never comes")));
}

TEST(WrongKernels, BarriersOfUnlikeThreads) {
  const auto named = [](int threads, const std::function<void()>& kernel) {
    return complaint({.threads = threads}, kernel);
  };
  EXPECT_EQ(named(64, [] { ptx::sync_threads_named(1, 32); }), "none");
  EXPECT_THAT(named(128, [] { ptx::sync_threads_named(1, 48); }),
              HasSubstr("48 threads are not whole warps"));
  EXPECT_THAT(named(32, [] { ptx::sync_threads_named(16, 32); }), HasSubstr("1 .. 15"));
  EXPECT_THAT(named(32, [] { ptx::sync_threads_named(1 + ptx::lane_index() % 2, 32); }),
              AllOf(HasSubstr("barrier 1 of 32"), HasSubstr("barrier 2 of 32")));
  const auto two_of_three_warps = [] {
    if (ptx::warp_index() < 2) ptx::sync_threads_named(1, ptx::warp_index() == 0 ? 64 : 96);
  };
  EXPECT_THAT(named(96, two_of_three_warps),
              AllOf(HasSubstr("barrier 1 of 96"), HasSubstr("barrier 1 of 64")));
}

TEST(WrongKernels, ArrivalsAtNamedBarriers) {
  const auto named = [](const std::function<void()>& kernel) {
    return complaint({.threads = 96}, kernel);
  };
  EXPECT_EQ(named([] {
              if (ptx::warp_index() == 0) {
                ptx::sync_threads_named(1, 96);
              } else {
                ptx::arrive_threads_named(1, 96);
              }
            }),
            "none");
  EXPECT_EQ(simt::statistics().barriers, 1u);
  EXPECT_THAT(named([] { ptx::arrive_threads_named(0, 96); }), HasSubstr("1 .. 15"));
  EXPECT_THAT(named([] { ptx::arrive_threads_named(1, 90); }), HasSubstr("not whole warps"));
  EXPECT_THAT(named([] {
                if (ptx::warp_index() != 0) return;
                ptx::arrive_threads_named(1, 64);
                ptx::sync_threads_named(1, 64);
              }),
              AllOf(HasSubstr("sync_threads_named"), HasSubstr("has arrived at barrier 1 before")));
  EXPECT_THAT(named([] { ptx::arrive_threads_named(1, ptx::warp_index() == 0 ? 64 : 96); }),
              AllOf(HasSubstr("barrier 1 of 96"), HasSubstr("barrier 1 of 64")));
  EXPECT_THAT(named([] { ptx::arrive_threads_named(1 + ptx::lane_index() % 2, 96); }),
              AllOf(HasSubstr("barrier 1 of 96"), HasSubstr("barrier 2 of 96")));
  EXPECT_THAT(named([] {
                if (ptx::warp_index() == 0) ptx::sync_threads_named(3, 96);
                if (ptx::warp_index() == 1) ptx::arrive_threads_named(3, 96);
              }),
              HasSubstr("warp 0: 32 lanes in sync_threads_named"));
}

TEST(WrongKernels, AFailureUnwindsEveryThreadAndLeavesTheMachineUsable) {
  int alive = 0;
  struct Counted {
    explicit Counted(int* count) : count_(count) { *count_ += 1; }
    ~Counted() { *count_ -= 1; }
    int* count_;
  };
  const auto kernel = [&] {
    const Counted counted(&alive);
    ptx::sync_warp();
    if (ptx::thread_index() == 77) throw std::runtime_error("from the kernel");
    ptx::sync_cta();
  };
  EXPECT_EQ(complaint({.threads = 128}, kernel), "from the kernel");
  EXPECT_EQ(alive, 0);
  EXPECT_EQ(exchange(0, [] { ptx::sync_cta(); }), 0);
}

TEST(WrongKernels, LaunchesAndInstructionsOutOfPlace) {
  EXPECT_THAT(complaint({.threads = 40}, [] {}), HasSubstr("threads is 40"));
  EXPECT_THAT(complaint({}, [] { launch({}, [] {}); }), HasSubstr("within a kernel"));
  EXPECT_THROW(ptx::sync_cta(), std::runtime_error);
}

TEST(Sync, AtomicsCountAcrossCtas) {
  int counter = 0;
  int last = 0;
  launch({.ctas = 5, .threads = 64}, [&] {
    ptx::fence_device();
    ptx::sync_cta();
    if (ptx::thread_index() == 0 && ptx::atomic_add(&counter, 1) == ptx::num_ctas() - 1) last += 1;
  });
  EXPECT_EQ(counter, 5);
  EXPECT_EQ(last, 1);
}

}  // namespace
}  // namespace trencadis
