// Device code on the host: a kernel that is written against kernels/cuda/ptx runs here, thread by
// thread, against the headers of the same names in tests/simt/include.
//
// The threads of a CTA are fibers; CTAs run one after another, in an order that the seed chooses. A
// thread runs until an instruction that needs others (a barrier, a shuffle, ldmatrix, mma) or that
// looks at memory which others change; who runs next is drawn from the seed. What hardware leaves
// open is decided for the worst: asynchronous copies land as late as the waits allow, memory that
// is not yet written holds 0xff bytes, which are NaN in every format. Where the worst is not one
// thing, the seed chooses: whether copies that a barrier in shared memory waits for land soon or
// when nobody can run without them, whether a warpgroup's products read their operands at the issue
// or at the wait, whether its warps wait for each other. So a missing wait or barrier shows as a
// wrong result under some of a handful of seeds.
//
// Shared memory begins at address 0 of its window. Writes to it by plain pointers are not among
// those that show_to_products() is checked for.
//
// Measured on an EPYC core: 128 threads, 2,000 collectives each, take 8 ms with shuffles, 15 ms
// with mma or ldmatrix, and 70 ms with shuffles where ucontext switches. 800 products of a
// warpgroup, 64 by 128 by 16, take 21 ms.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace trencadis::simt {

struct LaunchConfig {
  int ctas = 1;
  int threads = 32;              // of a CTA: whole warps, at most 1024
  std::size_t shared_bytes = 0;  // dynamic shared memory of a CTA
  std::uint64_t seed = 0;
};

/// Runs kernel() once a thread. Throws std::runtime_error, naming operation, CTA and warp, where
/// the kernel does what hardware does not define: lanes of a warp in different collectives, threads
/// that wait for ever, addresses that are misaligned or outside of shared memory, arrivals that are
/// too many for a phase, products that nobody waits for. What a kernel throws itself is passed on.
void launch(const LaunchConfig& config, const std::function<void()>& kernel);

/// Counted over the launch, by warp where the instruction is the warp's.
struct Statistics {
  std::uint64_t ldmatrix_phases = 0;     // eight rows of 16 bytes each
  std::uint64_t ldmatrix_conflicts = 0;  // phases of extra time, from rows in the same banks
  std::uint64_t mma = 0;
  std::uint64_t barriers = 0;  // of a CTA or named, completed
  std::uint64_t copies = 0;    // asynchronous, of 16 bytes
};

/// Of this thread's latest launch, failed or not.
const Statistics& statistics();

}  // namespace trencadis::simt
