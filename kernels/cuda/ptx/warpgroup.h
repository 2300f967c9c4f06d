// What four neighbouring warps, the first at a multiple of four, do together on sm_90a: products of
// matrices that lie in shared memory, under way while the warps go on, and shares of the registers.
//
// A product is issued, committed and waited for; until then nobody touches its accumulators, its
// row operand in registers, or what it reads from shared memory.
#pragma once

#include "contract/units.h"
#include "cuda/ptx/memory.h"
#include "cuda/ptx/mma.h"
#include "cuda/ptx/thread.h"

namespace trencadis::ptx {

/// A matrix in shared memory in the 128-byte swizzle: slabs of 64 elements a row, the 16-byte
/// chunks of a slab's row turned by the row's number modulo 8, at the address of a row's first
/// chunk. Bits as the products take them.
struct SharedMatrix {
  unsigned place;  // the address and the distance of slabs, in 16 bytes
  unsigned shape;  // the distance of eight rows, and the swizzle

  /// `group_bytes` from eight rows to the next eight; `slab_bytes` from a slab to the next one,
  /// which only operands read across their rows ask for. The warp agrees on all.
  TRENCADIS_DEVICE static SharedMatrix at(SharedAddress address, int slab_bytes, int group_bytes) {
    constexpr unsigned kSwizzle128 = 1u << 30;
    const unsigned place = (address.bits & 0x3ffffu) >> 4 | static_cast<unsigned>(slab_bytes >> 4)
                                                                << 16;
    // Products take it from the registers that a warp shares; said so, steps are added there.
    return {shuffle(place, 0), static_cast<unsigned>(group_bytes >> 4) | kSwizzle128};
  }
  /// The matrix that begins so many bytes further on, a multiple of 16.
  TRENCADIS_DEVICE SharedMatrix operator+(int bytes) const {
    return {place + static_cast<unsigned>(bytes / 16), shape};
  }
  TRENCADIS_DEVICE unsigned long long bits() const {
    unsigned long long both;
    asm("mov.b64 %0, {%1, %2};" : "=l"(both) : "r"(place), "r"(shape));
    return both;
  }
};

/// Before the first product after other uses of its registers.
TRENCADIS_DEVICE void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
/// Closes a group over the products since the last commit; it may be empty.
TRENCADIS_DEVICE void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Until at most the latest kPending groups are under way.
template <int kPending>
TRENCADIS_DEVICE void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
/// After the wait: the compiler takes values of accumulators from here on only.
template <int kTiles>
TRENCADIS_DEVICE void accept(float (&d)[kTiles][4]) {
#pragma unroll
  for (int j = 0; j < kTiles; ++j)
#pragma unroll
    for (int c = 0; c < 4; ++c) asm volatile("" : "+f"(d[j][c])::"memory");
}

/// What was written to shared memory before, by whoever has told this thread of it, is what
/// products read from now on.
TRENCADIS_DEVICE void show_to_products() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// Registers of each thread of the warpgroup: fewer, or more that others have given up; a multiple
/// of 8.
template <int kRegisters>
TRENCADIS_DEVICE void shrink_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
TRENCADIS_DEVICE void grow_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// wgmma.m64nNk16 as text: the registers of accumulators, as operands and by number. A thread holds
// of d, 64 rows by N columns, what it holds of the accumulators of m16n8 tiles side by side
// (mma.h): warp w of the warpgroup has rows [16 w, 16 w + 16).
#define TRENCADIS_D2(d, j)                                                       \
  "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3]), "+f"(d[j + 1][0]), \
      "+f"(d[j + 1][1]), "+f"(d[j + 1][2]), "+f"(d[j + 1][3])
#define TRENCADIS_D8(d, j) \
  TRENCADIS_D2(d, j), TRENCADIS_D2(d, j + 2), TRENCADIS_D2(d, j + 4), TRENCADIS_D2(d, j + 6)
#define TRENCADIS_D16(d, j) TRENCADIS_D8(d, j), TRENCADIS_D8(d, j + 8)
#define TRENCADIS_NUMBERS_32                                                                   \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, " \
  "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define TRENCADIS_NUMBERS_64                                                                     \
  TRENCADIS_NUMBERS_32                                                                           \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, " \
  "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

// Q K^T: both operands lie in shared memory, rows along the sum.
#define TRENCADIS_MULTIPLY_SHARED(N, TYPE, D, NUMBERS, A, B, ADDS)                                 \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " ADDS                                            \
               ", 0;\n"                                                                            \
               "wgmma.mma_async.sync.aligned.m64n" N "k16.f32." TYPE "." TYPE " {" NUMBERS "}, " A \
               ", " B ", p, 1, 1, 0, 0;\n}"                                                        \
               : D                                                                                 \
               : "l"(a.bits()), "l"(b.bits()), "r"(adds ? 1 : 0))
// P V: the row operand in registers, the column operand's rows across the sum.
#define TRENCADIS_MULTIPLY_REGISTERS(N, TYPE, D, NUMBERS, A, B)                                    \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" N "k16.f32." TYPE "." TYPE " {" NUMBERS "}, " A \
               ", " B ", 1, 1, 1, 1;"                                                              \
               : D                                                                                 \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.bits()))

/// d (+)= a b^T over 16 columns of 64 rows of a and kTiles * 8 rows of b; without `adds` what d
/// holds is not looked at.
template <class Element, int kTiles>
TRENCADIS_DEVICE void multiply_rows(float (&d)[kTiles][4], SharedMatrix a, SharedMatrix b,
                                    bool adds) {
  constexpr bool kHalf = kIsHalf<Element>;
  static_assert(kHalf || kIsBFloat<Element>, "an element is ptx::Half or ptx::BFloat");
  static_assert(kTiles == 8 || kTiles == 16);
  if constexpr (kTiles == 8 && kHalf)
    TRENCADIS_MULTIPLY_SHARED("64", "f16", TRENCADIS_D8(d, 0), TRENCADIS_NUMBERS_32, "%32", "%33",
                              "%34");
  else if constexpr (kTiles == 8)
    TRENCADIS_MULTIPLY_SHARED("64", "bf16", TRENCADIS_D8(d, 0), TRENCADIS_NUMBERS_32, "%32", "%33",
                              "%34");
  else if constexpr (kHalf)
    TRENCADIS_MULTIPLY_SHARED("128", "f16", TRENCADIS_D16(d, 0), TRENCADIS_NUMBERS_64, "%64", "%65",
                              "%66");
  else
    TRENCADIS_MULTIPLY_SHARED("128", "bf16", TRENCADIS_D16(d, 0), TRENCADIS_NUMBERS_64, "%64",
                              "%65", "%66");
}

/// d[first ...] += a b over 16 rows of b and kTiles * 8 of its columns; a as in mma.h.
template <class Element, int kTiles, int kFirst, int kAll>
TRENCADIS_DEVICE void multiply_columns(float (&d)[kAll][4], const unsigned (&a)[4],
                                       SharedMatrix b) {
  constexpr bool kHalf = kIsHalf<Element>;
  static_assert(kHalf || kIsBFloat<Element>, "an element is ptx::Half or ptx::BFloat");
  static_assert(kTiles == 8 || kTiles == 16);
  static_assert(kFirst + kTiles <= kAll);
  if constexpr (kTiles == 8 && kHalf)
    TRENCADIS_MULTIPLY_REGISTERS("64", "f16", TRENCADIS_D8(d, kFirst), TRENCADIS_NUMBERS_32,
                                 "{%32, %33, %34, %35}", "%36");
  else if constexpr (kTiles == 8)
    TRENCADIS_MULTIPLY_REGISTERS("64", "bf16", TRENCADIS_D8(d, kFirst), TRENCADIS_NUMBERS_32,
                                 "{%32, %33, %34, %35}", "%36");
  else if constexpr (kHalf)
    TRENCADIS_MULTIPLY_REGISTERS("128", "f16", TRENCADIS_D16(d, kFirst), TRENCADIS_NUMBERS_64,
                                 "{%64, %65, %66, %67}", "%68");
  else
    TRENCADIS_MULTIPLY_REGISTERS("128", "bf16", TRENCADIS_D16(d, kFirst), TRENCADIS_NUMBERS_64,
                                 "{%64, %65, %66, %67}", "%68");
}

#undef TRENCADIS_D2
#undef TRENCADIS_D8
#undef TRENCADIS_D16
#undef TRENCADIS_NUMBERS_32
#undef TRENCADIS_NUMBERS_64
#undef TRENCADIS_MULTIPLY_SHARED
#undef TRENCADIS_MULTIPLY_REGISTERS

}  // namespace trencadis::ptx
