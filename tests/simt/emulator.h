// What the emulated instructions in tests/simt/include ask of the machine in launch.cpp. Each of
// these throws std::runtime_error outside of a launch.
#pragma once

#include <cstddef>
#include <cstdint>
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

/// Counts the warp among the `threads` threads at barrier `id` and lets it go on.
void arrive_at_barrier(const char* operation, int id, int threads);

/// Lets other threads run. A thread that does nothing else for long is reported: what it waits for
/// never comes.
void yield(const char* operation);

char* dynamic_shared();

/// The offset in the CTA's dynamic shared memory of so many bytes, aligned to as many and inside of
/// it, or fail().
std::size_t shared_offset(const char* operation, const void* address, std::size_t bytes = 16);

void check_aligned(const char* operation, const void* address, std::size_t bytes = 16);

/// Says that the running thread has written to the 16 bytes around it.
void stored_shared(const void* address);
void show_to_products();
/// 16 bytes that products of the running warp may read, or fail().
const char* shown_shared(const char* operation, std::size_t offset);

void copy_async_16(const char* operation, void* shared, const void* global, bool valid);
void commit_copies();
void wait_copies(int pending);

// Barriers in shared memory, of 8 bytes.
void make_barrier(void* barrier, int arrivals);
void arrive(void* barrier);
/// When the copies that the thread has started so far have landed, which they do by themselves.
void arrive_with_copies(void* barrier);
void wait_phase(void* barrier, unsigned parity);

/// What a thread asks of its warpgroup: the same in every thread but for the last two.
struct WarpgroupCall {
  enum class Kind { begin, commit, wait, multiply_rows, multiply_columns, registers };
  const char* operation;
  Kind kind;
  int number = 0;              // groups that may be under way, registers, whether a product adds
  bool is_half = false;        // the elements; or BFloat
  int tiles = 0;               // of 8 columns of the accumulators
  std::uint64_t a = 0, b = 0;  // bits of matrices in shared memory
  float* d = nullptr;          // 4 accumulators a tile
  const unsigned* rows = nullptr;  // the registers of a row operand
};

/// Parks until the warp's lanes are here with the same call, and where the seed says so, its
/// warpgroup's.
void warpgroup(const WarpgroupCall& call);

/// The launch's counters, for the instructions to add to.
Statistics& counters();

}  // namespace trencadis::simt
