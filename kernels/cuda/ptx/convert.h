// 16-bit elements and float32. To 16 bits: round to nearest even, overflow to infinity, subnormal
// results kept, every NaN to 0x7fff. To 32 bits: exact.
#pragma once

#include "contract/units.h"
#include "cuda/ptx/mma.h"
#include "cuda/ptx/thread.h"

namespace trencadis::ptx {

template <class Element>
TRENCADIS_DEVICE unsigned short from_float(float value) {
  static_assert(kIsHalf<Element> || kIsBFloat<Element>, "an element is ptx::Half or ptx::BFloat");
  unsigned short bits;
  if constexpr (kIsHalf<Element>) {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  } else {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#else
    // Half of the last place, less a bit where the kept part is even: the carry rounds.
    const auto word = __builtin_bit_cast(unsigned, value);
    const unsigned rounded = (word + 0x7fffu + ((word >> 16) & 1u)) >> 16;
    bits = static_cast<unsigned short>((word & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : rounded);
#endif
  }
  return bits;
}

/// Two elements, `low` in bits 0 .. 15.
template <class Element>
TRENCADIS_DEVICE unsigned pack(float low, float high) {
  static_assert(kIsHalf<Element> || kIsBFloat<Element>, "an element is ptx::Half or ptx::BFloat");
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  unsigned result;
  if constexpr (kIsHalf<Element>) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  }
  return result;
#else
  const unsigned upper = from_float<Element>(high);
  return upper << 16 | from_float<Element>(low);
#endif
}

template <class Element>
TRENCADIS_DEVICE float to_float(unsigned short bits) {
  static_assert(kIsHalf<Element> || kIsBFloat<Element>, "an element is ptx::Half or ptx::BFloat");
  if constexpr (kIsHalf<Element>) {
    float result;
    asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(bits));
    return result;
  } else {
    return __builtin_bit_cast(float, static_cast<unsigned>(bits) << 16);
  }
}

template <class Element>
TRENCADIS_DEVICE float unpack_low(unsigned pair) {
  return to_float<Element>(static_cast<unsigned short>(pair & 0xffffu));
}

template <class Element>
TRENCADIS_DEVICE float unpack_high(unsigned pair) {
  return to_float<Element>(static_cast<unsigned short>(pair >> 16));
}

}  // namespace trencadis::ptx
