// The matrix product of a warp: d [16, 8] += a [16, 16] b [16, 8], 16-bit inputs, float32 sums.
//
// With g = lane / 4 and t = lane % 4, a lane holds, the lower index in the low half of a register:
//
//   a[0] (g, 2t .. 2t+1)      a[1] (g+8, 2t .. 2t+1)      row, column
//   a[2] (g, 2t+8 .. 2t+9)    a[3] (g+8, 2t+8 .. 2t+9)
//   b0   (2t .. 2t+1, g)      b1   (2t+8 .. 2t+9, g)
//   d[0], d[1] (g, 2t .. 2t+1)    d[2], d[3] (g+8, 2t .. 2t+1)
#pragma once

#include "contract/units.h"
#include "cuda/ptx/thread.h"

namespace trencadis::ptx {

// The types of 16-bit elements, as tags: IEEE binary16 and bfloat16.
struct Half {};
struct BFloat {};

template <class Element>
inline constexpr bool kIsHalf = false;
template <>
inline constexpr bool kIsHalf<Half> = true;

template <class Element>
inline constexpr bool kIsBFloat = false;
template <>
inline constexpr bool kIsBFloat<BFloat> = true;

/// float16 on every architecture, bfloat16 from sm_80 on.
template <class Element>
TRENCADIS_DEVICE void mma_16x8x16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  static_assert(kIsHalf<Element> || kIsBFloat<Element>, "an element is ptx::Half or ptx::BFloat");
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  if constexpr (kIsHalf<Element>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
#else
  static_assert(kIsHalf<Element>, "the tensor cores of sm_75 have no bfloat16: it needs sm_80");
  // The halves of the inner dimension, one after the other: their fragments are those registers.
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(b0));
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[2]), "r"(a[3]), "r"(b1));
#endif
}

}  // namespace trencadis::ptx
