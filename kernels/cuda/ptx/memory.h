// Memory in pieces of 16 bytes, the widest access of one thread. Every address is 16-byte aligned.
//
// The accesses are volatile: a load must not rise above the wait for the kernel that wrote the
// data.
#pragma once

#include "contract/units.h"
#include "cuda/ptx/thread.h"

namespace trencadis::ptx {

struct alignas(16) Bytes16 {
  unsigned w[4];
};

/// The dynamic shared memory of the CTA, aligned to eight lines of all 32 banks, after which
/// swizzled layouts repeat.
TRENCADIS_DEVICE char* dynamic_shared() {
  extern __shared__ __align__(1024) char trencadis_dynamic_shared[];
  return trencadis_dynamic_shared;
}

/// The address in the window of shared memory, which is what instructions on it take.
TRENCADIS_DEVICE unsigned shared_address(const void* shared) {
  return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

/// A place in the CTA's shared memory in 32 bits, which is half of what a pointer takes: addresses
/// of tiles are most of what a main loop keeps in registers besides its tiles.
struct SharedAddress {
  unsigned bits;
  TRENCADIS_FN friend SharedAddress operator+(SharedAddress at, int bytes) {
    return {at.bits + static_cast<unsigned>(bytes)};
  }
};

TRENCADIS_DEVICE SharedAddress shared_place(const void* shared) {
  return {shared_address(shared)};
}

/// base + index * bytes: one multiplication that adds, where a product of 64 bits takes several.
TRENCADIS_DEVICE const char* far_address(const char* base, int index, int bytes) {
  const char* result;
  asm("mad.wide.s32 %0, %1, %2, %3;" : "=l"(result) : "r"(index), "r"(bytes), "l"(base));
  return result;
}

/// Asks for the line of an address ahead of its use.
TRENCADIS_DEVICE void prefetch(const void* global) {
  asm volatile("prefetch.global.L1 [%0];" ::"l"(__cvta_generic_to_global(global)));
}

/// For data that nobody writes while the kernel runs and that is read once: it leaves L1 alone.
TRENCADIS_DEVICE Bytes16 load_global_16(const void* global) {
  Bytes16 result;
  asm volatile("ld.global.nc.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(result.w[0]), "=r"(result.w[1]), "=r"(result.w[2]), "=r"(result.w[3])
               : "l"(__cvta_generic_to_global(global)));
  return result;
}

/// For data that this kernel may write.
TRENCADIS_DEVICE Bytes16 load_global_16_written(const void* global) {
  Bytes16 result;
  asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(result.w[0]), "=r"(result.w[1]), "=r"(result.w[2]), "=r"(result.w[3])
               : "l"(__cvta_generic_to_global(global))
               : "memory");
  return result;
}

/// Two neighbours, at a multiple of 8 bytes.
TRENCADIS_DEVICE void store_global_8(float* global, float left, float right) {
  asm volatile("st.global.v2.f32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(global)),
               "f"(left), "f"(right)
               : "memory");
}

/// For data that another CTA of this launch has written: past L1, which does not see that.
TRENCADIS_DEVICE Bytes16 load_written_16(const void* global) {
  Bytes16 result;
  asm volatile("ld.global.cg.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(result.w[0]), "=r"(result.w[1]), "=r"(result.w[2]), "=r"(result.w[3])
               : "l"(__cvta_generic_to_global(global))
               : "memory");
  return result;
}
TRENCADIS_DEVICE float load_written(const float* global) {
  float result;
  asm volatile("ld.global.cg.f32 %0, [%1];"
               : "=f"(result)
               : "l"(__cvta_generic_to_global(global))
               : "memory");
  return result;
}

TRENCADIS_DEVICE void store_global_16(void* global, const Bytes16& value) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(global)),
               "r"(value.w[0]), "r"(value.w[1]), "r"(value.w[2]), "r"(value.w[3])
               : "memory");
}

TRENCADIS_DEVICE Bytes16 load_shared_16(SharedAddress shared) {
  Bytes16 result;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(result.w[0]), "=r"(result.w[1]), "=r"(result.w[2]), "=r"(result.w[3])
               : "r"(shared.bits)
               : "memory");
  return result;
}
TRENCADIS_DEVICE void store_shared_16(SharedAddress shared, const Bytes16& value) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(shared.bits), "r"(value.w[0]),
               "r"(value.w[1]), "r"(value.w[2]), "r"(value.w[3])
               : "memory");
}

/// A T of 4, 8 or 16 bytes, aligned to its size.
template <class T>
TRENCADIS_DEVICE T load_shared(SharedAddress shared) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16);
  if constexpr (sizeof(T) == 4) {
    unsigned word;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(shared.bits) : "memory");
    return __builtin_bit_cast(T, word);
  } else if constexpr (sizeof(T) == 8) {
    unsigned long long words;
    asm volatile("ld.shared.b64 %0, [%1];" : "=l"(words) : "r"(shared.bits) : "memory");
    return __builtin_bit_cast(T, words);
  } else {
    return __builtin_bit_cast(T, load_shared_16(shared));
  }
}
template <class T>
TRENCADIS_DEVICE void store_shared(SharedAddress shared, const T& value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16);
  if constexpr (sizeof(T) == 4)
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(shared.bits),
                 "r"(__builtin_bit_cast(unsigned, value))
                 : "memory");
  else if constexpr (sizeof(T) == 8)
    asm volatile("st.shared.b64 [%0], %1;" ::"r"(shared.bits),
                 "l"(__builtin_bit_cast(unsigned long long, value))
                 : "memory");
  else
    store_shared_16(shared, __builtin_bit_cast(Bytes16, value));
}

TRENCADIS_DEVICE Bytes16 load_shared_16(const void* shared) {
  return load_shared_16(shared_place(shared));
}

TRENCADIS_DEVICE void store_shared_16(void* shared, const Bytes16& value) {
  store_shared_16(shared_place(shared), value);
}

}  // namespace trencadis::ptx
