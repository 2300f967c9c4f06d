// What the emulated instructions in tests/simt/include ask of the machine in launch.cpp. Each of
// these throws std::runtime_error outside of a launch.
#pragma once

#include <cstddef>
#include <string>

#include "simt/launch.h"

namespace trencadis::simt {

inline constexpr int kWarpSize = 32;

/// Where the running thread is.
struct Place {
  int thread;
  int cta;
  int threads;
  int ctas;
};
Place place();

/// Throws std::runtime_error: "operation: CTA c, warp w, lane l: what".
[[noreturn]] void fail(const char* operation, const std::string& what);

/// Parks until all lanes of the warp are here with the same operation. The last to come calls
/// perform(lanes), where lanes[l] is what lane l passed: operands and room for results.
void warp_collective(const char* operation, void* operands, void (*perform)(void* const* lanes));

/// Parks until `threads` threads are at barrier `id`.
void barrier(const char* operation, int id, int threads);

/// Lets other threads run. A thread that does nothing else for long is reported: what it waits for
/// never comes.
void yield(const char* operation);

char* dynamic_shared();

/// The offset in the CTA's dynamic shared memory of 16 bytes, aligned and inside of it, or fail().
std::size_t shared_offset(const char* operation, const void* address);

void check_aligned(const char* operation, const void* address);

void copy_async_16(void* shared, const void* global, bool valid);
void commit_copies();
void wait_copies(int pending);

/// The launch's counters, for the instructions to add to.
Statistics& counters();

}  // namespace trencadis::simt
