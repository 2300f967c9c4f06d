// The emulation of kernels/cuda/ptx/mma.h: products and sums in float32.
#pragma once

#include <type_traits>

#include "contract/units.h"
#include "cuda/ptx/thread.h"
#include "simt/emulator.h"
#include "simt/float16.h"

namespace trencadis::ptx {
namespace detail {

struct Fragments {
  float* d;
  const unsigned* a;
  unsigned b0, b1;
};

template <class Element>
void multiply(void* const* lanes) {
  constexpr auto low = [](unsigned pair) { return Format<Element>::widen(pair & 0xffffu); };
  constexpr auto high = [](unsigned pair) { return Format<Element>::widen(pair >> 16); };
  float a[16][16];
  float b[16][8];
  for (int l = 0; l < simt::kWarpSize; ++l) {
    const auto& lane = *static_cast<const Fragments*>(lanes[l]);
    const int g = l / 4;
    const int t = l % 4;
    for (int r = 0; r < 4; ++r) {
      const int row = g + r % 2 * 8;
      const int column = 2 * t + r / 2 * 8;
      a[row][column] = low(lane.a[r]);
      a[row][column + 1] = high(lane.a[r]);
    }
    b[2 * t][g] = low(lane.b0);
    b[2 * t + 1][g] = high(lane.b0);
    b[2 * t + 8][g] = low(lane.b1);
    b[2 * t + 9][g] = high(lane.b1);
  }

  float product[16][8] = {};
  for (int i = 0; i < 16; ++i) {
    for (int k = 0; k < 16; ++k) {
      for (int j = 0; j < 8; ++j) product[i][j] += a[i][k] * b[k][j];
    }
  }

  for (int l = 0; l < simt::kWarpSize; ++l) {
    float* d = static_cast<const Fragments*>(lanes[l])->d;
    for (int r = 0; r < 4; ++r) d[r] += product[l / 4 + r / 2 * 8][2 * (l % 4) + r % 2];
  }
  simt::counters().mma += 1;
}

}  // namespace detail

template <class Element>
void mma_16x8x16(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  constexpr bool is_half = std::is_same_v<Element, Half>;
  static_assert(is_half || std::is_same_v<Element, BFloat>,
                "an element is ptx::Half or ptx::BFloat");
  detail::Fragments mine{d, a, b0, b1};
  simt::warp_collective(is_half ? "mma_16x8x16<Half>" : "mma_16x8x16<BFloat>", &mine,
                        detail::multiply<Element>);
}

}  // namespace trencadis::ptx
