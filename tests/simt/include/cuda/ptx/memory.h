// The emulation of kernels/cuda/ptx/memory.h.
#pragma once

#include <cstring>

#include "contract/units.h"
#include "cuda/ptx/thread.h"
#include "simt/emulator.h"

namespace trencadis::ptx {

struct alignas(16) Bytes16 {
  unsigned w[4];
};

inline char* dynamic_shared() {
  return simt::dynamic_shared();
}

inline unsigned shared_address(const void* shared) {
  return static_cast<unsigned>(static_cast<const char*>(shared) - simt::dynamic_shared());
}

struct SharedAddress {
  unsigned bits;
  friend SharedAddress operator+(SharedAddress at, int bytes) {
    return {at.bits + static_cast<unsigned>(bytes)};
  }
};

inline SharedAddress shared_place(const void* shared) {
  return {shared_address(shared)};
}

namespace detail {
inline char* pointer_to(SharedAddress at) {
  return simt::dynamic_shared() + static_cast<int>(at.bits);
}
}  // namespace detail

inline void prefetch(const void*) {}

inline const char* far_address(const char* base, int index, int bytes) {
  return base + static_cast<long long>(index) * bytes;
}

inline Bytes16 load_global_16(const void* global) {
  simt::check_aligned("load_global_16", global);
  Bytes16 result;
  std::memcpy(&result, global, sizeof result);
  return result;
}

inline Bytes16 load_global_16_written(const void* global) {
  simt::check_aligned("load_global_16_written", global);
  Bytes16 result;
  std::memcpy(&result, global, sizeof result);
  return result;
}

inline void store_global_8(float* global, float left, float right) {
  global[0] = left;
  global[1] = right;
}

inline Bytes16 load_written_16(const void* global) {
  simt::check_aligned("load_written_16", global);
  Bytes16 result;
  std::memcpy(&result, global, sizeof result);
  return result;
}

inline float load_written(const float* global) {
  return *global;
}

inline void store_global_16(void* global, const Bytes16& value) {
  simt::check_aligned("store_global_16", global);
  std::memcpy(global, &value, sizeof value);
}

inline Bytes16 load_shared_16(const void* shared) {
  simt::shared_offset("load_shared_16", shared);
  Bytes16 result;
  std::memcpy(&result, shared, sizeof result);
  return result;
}

inline void store_shared_16(void* shared, const Bytes16& value) {
  simt::shared_offset("store_shared_16", shared);
  std::memcpy(shared, &value, sizeof value);
  simt::stored_shared(shared);
}

inline Bytes16 load_shared_16(SharedAddress shared) {
  return load_shared_16(detail::pointer_to(shared));
}

inline void store_shared_16(SharedAddress shared, const Bytes16& value) {
  store_shared_16(detail::pointer_to(shared), value);
}

template <class T>
T load_shared(SharedAddress shared) {
  if constexpr (sizeof(T) == 16) simt::shared_offset("load_shared", detail::pointer_to(shared));
  T result;
  std::memcpy(&result, detail::pointer_to(shared), sizeof result);
  return result;
}

template <class T>
void store_shared(SharedAddress shared, const T& value) {
  if constexpr (sizeof(T) == 16) simt::shared_offset("store_shared", detail::pointer_to(shared));
  std::memcpy(detail::pointer_to(shared), &value, sizeof value);
  simt::stored_shared(detail::pointer_to(shared));
}

}  // namespace trencadis::ptx
