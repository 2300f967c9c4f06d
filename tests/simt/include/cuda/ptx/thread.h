// The emulation of kernels/cuda/ptx/thread.h.
#pragma once

#include <bit>

#include "contract/units.h"
#include "simt/emulator.h"

#define TRENCADIS_DEVICE inline

namespace trencadis::ptx {

inline int thread_index() {
  return simt::place().thread;
}
inline int lane_index() {
  return simt::place().thread % simt::kWarpSize;
}
inline int warp_index() {
  return simt::place().thread / simt::kWarpSize;
}

inline int opaque(int value) {
  return value;
}

inline int cta_index() {
  return simt::place().cta;
}
inline int num_ctas() {
  return simt::place().ctas;
}
inline int cta_threads() {
  return simt::place().threads;
}

inline void sync_cta() {
  simt::barrier("sync_cta", 0, simt::place().threads);
}

inline void sync_warp() {
  simt::warp_collective("sync_warp", nullptr, [](void* const*) {});
}

inline void sync_threads_named(int barrier, int threads) {
  if (barrier < 1 || barrier > 15) simt::fail("sync_threads_named", "barriers are 1 .. 15");
  simt::barrier("sync_threads_named", barrier, threads);
}

inline void arrive_threads_named(int barrier, int threads) {
  if (barrier < 1 || barrier > 15) simt::fail("arrive_threads_named", "barriers are 1 .. 15");
  simt::arrive_at_barrier("arrive_threads_named", barrier, threads);
}

namespace detail {

struct Exchange {
  unsigned value;
  int from;  // the lane whose value is asked for
  unsigned result;
};

inline unsigned exchange(const char* operation, unsigned value, int from) {
  Exchange mine{value, from % simt::kWarpSize, 0};
  simt::warp_collective(operation, &mine, [](void* const* lanes) {
    for (int l = 0; l < simt::kWarpSize; ++l) {
      auto* lane = static_cast<Exchange*>(lanes[l]);
      lane->result = static_cast<const Exchange*>(lanes[lane->from])->value;
    }
  });
  return mine.result;
}

struct Vote {
  bool predicate;
  unsigned result;
};

inline unsigned vote(const char* operation, bool predicate) {
  Vote mine{predicate, 0};
  simt::warp_collective(operation, &mine, [](void* const* lanes) {
    unsigned votes = 0;
    for (int l = 0; l < simt::kWarpSize; ++l) {
      if (static_cast<const Vote*>(lanes[l])->predicate) votes |= 1u << l;
    }
    for (int l = 0; l < simt::kWarpSize; ++l) static_cast<Vote*>(lanes[l])->result = votes;
  });
  return mine.result;
}

}  // namespace detail

template <class T>
T shuffle_xor(T value, int mask) {
  static_assert(sizeof(T) == 4, "a shuffle moves 32 bits");
  if (mask < 0 || mask >= simt::kWarpSize) simt::fail("shuffle_xor", "masks are 0 .. 31");
  const auto bits = std::bit_cast<unsigned>(value);
  return std::bit_cast<T>(detail::exchange("shuffle_xor", bits, lane_index() ^ mask));
}

template <class T>
T shuffle(T value, int lane) {
  static_assert(sizeof(T) == 4, "a shuffle moves 32 bits");
  if (lane < 0 || lane >= simt::kWarpSize) simt::fail("shuffle", "lanes are 0 .. 31");
  return std::bit_cast<T>(detail::exchange("shuffle", std::bit_cast<unsigned>(value), lane));
}

inline bool any_in_warp(bool predicate) {
  return detail::vote("any_in_warp", predicate) != 0;
}

}  // namespace trencadis::ptx
