// Who this thread is, and the meetings of its warp and of its CTA. Grids and CTAs are
// one-dimensional, and a CTA is whole warps.
#pragma once

#include "contract/units.h"

/// For functions that only a device has. The emulation in tests/simt says `inline`.
#define TRENCADIS_DEVICE __device__ __forceinline__

namespace trencadis::ptx {

TRENCADIS_DEVICE int thread_index() {
  return static_cast<int>(threadIdx.x);
}
TRENCADIS_DEVICE int lane_index() {
  return static_cast<int>(threadIdx.x & 31u);
}
TRENCADIS_DEVICE int warp_index() {
  return static_cast<int>(threadIdx.x >> 5);
}

/// The value, about which the compiler is told nothing: what follows from it is computed where it
/// is used and not once for all, before the loop, in registers that every other path of it then
/// lacks.
TRENCADIS_DEVICE int opaque(int value) {
  asm volatile("" : "+r"(value));
  return value;
}

TRENCADIS_DEVICE int cta_index() {
  return static_cast<int>(blockIdx.x);
}
TRENCADIS_DEVICE int num_ctas() {
  return static_cast<int>(gridDim.x);
}
TRENCADIS_DEVICE int cta_threads() {
  return static_cast<int>(blockDim.x);
}

/// All threads of the CTA; barrier 0.
TRENCADIS_DEVICE void sync_cta() {
  __syncthreads();
}

TRENCADIS_DEVICE void sync_warp() {
  __syncwarp();
}

/// The first `threads` threads to come, whole warps of them; barrier 1 .. 15.
TRENCADIS_DEVICE void sync_threads_named(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

/// Counts among them without waiting for the others.
TRENCADIS_DEVICE void arrive_threads_named(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// The collectives of a warp: all 32 lanes take part.

template <class T>
TRENCADIS_DEVICE T shuffle_xor(T value, int mask) {
  static_assert(sizeof(T) == 4, "a shuffle moves 32 bits");
  const auto bits = __builtin_bit_cast(unsigned, value);
  return __builtin_bit_cast(T, __shfl_xor_sync(0xffffffffu, bits, mask));
}

template <class T>
TRENCADIS_DEVICE T shuffle(T value, int lane) {
  static_assert(sizeof(T) == 4, "a shuffle moves 32 bits");
  const auto bits = __builtin_bit_cast(unsigned, value);
  return __builtin_bit_cast(T, __shfl_sync(0xffffffffu, bits, lane));
}

TRENCADIS_DEVICE bool any_in_warp(bool predicate) {
  return __any_sync(0xffffffffu, predicate ? 1 : 0) != 0;
}

}  // namespace trencadis::ptx
