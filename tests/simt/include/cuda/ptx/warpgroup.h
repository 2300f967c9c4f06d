// The emulation of kernels/cuda/ptx/warpgroup.h. Accumulators and row operands are known by their
// addresses until the wait, so they must live as long.
#pragma once

#include <type_traits>

#include "contract/units.h"
#include "cuda/ptx/memory.h"
#include "cuda/ptx/mma.h"
#include "cuda/ptx/thread.h"
#include "simt/emulator.h"

namespace trencadis::ptx {

struct SharedMatrix {
  unsigned long long bits;

  static SharedMatrix at(SharedAddress address, int slab_bytes, int group_bytes) {
    constexpr unsigned long long kSwizzle128 = 1ull << 62;
    return {(address.bits & 0x3ffffu) >> 4 |
            static_cast<unsigned long long>(slab_bytes >> 4) << 16 |
            static_cast<unsigned long long>(group_bytes >> 4) << 32 | kSwizzle128};
  }
  SharedMatrix operator+(int bytes) const {
    return {bits + static_cast<unsigned long long>(bytes / 16)};
  }
};

inline void begin_products() {
  simt::warpgroup({.operation = "begin_products", .kind = simt::WarpgroupCall::Kind::begin});
}

inline void commit_products() {
  simt::warpgroup({.operation = "commit_products", .kind = simt::WarpgroupCall::Kind::commit});
}

template <int kPending>
void wait_products() {
  static_assert(kPending >= 0 && kPending <= 7);
  simt::warpgroup(
      {.operation = "wait_products", .kind = simt::WarpgroupCall::Kind::wait, .number = kPending});
}

template <int kTiles>
void accept(float (&)[kTiles][4]) {}

inline void show_to_products() {
  simt::show_to_products();
}

template <int kRegisters>
void shrink_registers() {
  static_assert(kRegisters % 8 == 0 && kRegisters >= 24 && kRegisters <= 256);
  simt::warpgroup({.operation = "shrink_registers",
                   .kind = simt::WarpgroupCall::Kind::registers,
                   .number = kRegisters});
}

template <int kRegisters>
void grow_registers() {
  static_assert(kRegisters % 8 == 0 && kRegisters >= 24 && kRegisters <= 256);
  simt::warpgroup({.operation = "grow_registers",
                   .kind = simt::WarpgroupCall::Kind::registers,
                   .number = kRegisters});
}

template <class Element, int kTiles>
void multiply_rows(float (&d)[kTiles][4], SharedMatrix a, SharedMatrix b, bool adds) {
  constexpr bool is_half = std::is_same_v<Element, Half>;
  static_assert(is_half || std::is_same_v<Element, BFloat>,
                "an element is ptx::Half or ptx::BFloat");
  static_assert(kTiles == 8 || kTiles == 16);
  simt::warpgroup({.operation = is_half ? "multiply_rows<Half>" : "multiply_rows<BFloat>",
                   .kind = simt::WarpgroupCall::Kind::multiply_rows,
                   .number = adds ? 1 : 0,
                   .is_half = is_half,
                   .tiles = kTiles,
                   .a = a.bits,
                   .b = b.bits,
                   .d = d[0]});
}

template <class Element, int kTiles, int kFirst, int kAll>
void multiply_columns(float (&d)[kAll][4], const unsigned (&a)[4], SharedMatrix b) {
  constexpr bool is_half = std::is_same_v<Element, Half>;
  static_assert(is_half || std::is_same_v<Element, BFloat>,
                "an element is ptx::Half or ptx::BFloat");
  static_assert(kTiles == 8 || kTiles == 16);
  static_assert(kFirst + kTiles <= kAll);
  simt::warpgroup({.operation = is_half ? "multiply_columns<Half>" : "multiply_columns<BFloat>",
                   .kind = simt::WarpgroupCall::Kind::multiply_columns,
                   .number = 1,
                   .is_half = is_half,
                   .tiles = kTiles,
                   .b = b.bits,
                   .d = d[kFirst],
                   .rows = a});
}

/// A row operand that is gone before the wait.
template <class Element, int kTiles, int kFirst, int kAll>
void multiply_columns(float (&d)[kAll][4], const unsigned (&&a)[4], SharedMatrix b) = delete;

}  // namespace trencadis::ptx
