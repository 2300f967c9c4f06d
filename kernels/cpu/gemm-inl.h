// Prefill: tiles of many query rows. Keys and values are packed into panels of a few vectors' width
// and multiplied by a register-blocked kernel; packing costs a few per cent at 128 rows.
#if defined(TRENCADIS_CPU_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRENCADIS_CPU_GEMM_INL_H_
#undef TRENCADIS_CPU_GEMM_INL_H_
#else
#define TRENCADIS_CPU_GEMM_INL_H_
#endif

#include <hwy/highway.h>

#include <array>
#include <cstdint>
#include <utility>

#include "cpu/microkernels.h"
#include "cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trencadis::cpu::HWY_NAMESPACE {

// The block of c that stays in registers: kBlockRows x (kPanelVectors vectors). 16 registers hold
// 6 x 2 accumulators, two vectors of b and a broadcast; 32 hold twice as many.
#if HWY_TARGET <= HWY_AVX3
inline constexpr int kBlockRows = 12, kPanelVectors = 2;
#elif HWY_TARGET == HWY_NEON
inline constexpr int kBlockRows = 6, kPanelVectors = 4;
#elif HWY_TARGET == HWY_AVX2
inline constexpr int kBlockRows = 6, kPanelVectors = 2;
#else  // 128-bit vectors, 16 registers
inline constexpr int kBlockRows = 3, kPanelVectors = 4;
#endif
inline constexpr int kPanelWidth = kPanelVectors * kLanes;
inline constexpr int kDimMultiple = kPanelWidth > kPair ? kPanelWidth : kPair;
static_assert(kDimMultiple % kPanelWidth == 0 && kDimMultiple % kPair == 0);

template <int R>
void GemmBlock(const GemmTask& task, int row, int panel) {
  const F d;
  const float* a = task.a + row * task.a_stride;
  const float* b = task.b + panel * panel_stride(task.depth, kPanelWidth);
  float* c = task.c + row * task.c_stride + panel * kPanelWidth;

  VF acc[R][kPanelVectors];
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < kPanelVectors; ++v) acc[r][v] = hn::Zero(d);
  for (int k = 0; k < task.depth; ++k, b += kPanelWidth) {
    VF x[kPanelVectors];
    for (int v = 0; v < kPanelVectors; ++v) x[v] = hn::Load(d, b + v * kLanes);
    for (int r = 0; r < R; ++r) {
      const VF weight = hn::Set(d, a[r * task.a_stride + k]);
      for (int v = 0; v < kPanelVectors; ++v) acc[r][v] = hn::MulAdd(weight, x[v], acc[r][v]);
    }
  }

  for (int r = 0; r < R; ++r) {
    float* out = c + r * task.c_stride;
    if (task.rescale != nullptr) {
      const VF factor = hn::Set(d, task.rescale[row + r]);
      for (int v = 0; v < kPanelVectors; ++v)
        acc[r][v] = hn::MulAdd(hn::LoadU(d, out + v * kLanes), factor, acc[r][v]);
    }
    for (int v = 0; v < kPanelVectors; ++v) hn::StoreU(acc[r][v], d, out + v * kLanes);
  }
}

using GemmBlockFn = void (*)(const GemmTask&, int row, int panel);

template <int... R>
constexpr std::array<GemmBlockFn, sizeof...(R)> GemmBlocks(std::integer_sequence<int, R...>) {
  return {&GemmBlock<R + 1>...};
}

/// Rows of the next block: full blocks, but two middling ones rather than a full and a thin one.
constexpr int NextBlockRows(int rows_left) {
  if (rows_left <= kBlockRows) return rows_left;
  if (rows_left >= 2 * kBlockRows || rows_left >= kBlockRows + kBlockRows / 2) return kBlockRows;
  return (rows_left + 1) / 2;
}

inline void Gemm(const GemmTask& task) {
  static constexpr auto kBlocks = GemmBlocks(std::make_integer_sequence<int, kBlockRows>());
  // A panel of b stays in the first-level cache while the rows of a pass by.
  for (int panel = 0; panel < task.panels; ++panel) {
    for (int row = 0; row < task.rows;) {
      const int rows = NextBlockRows(task.rows - row);
      kBlocks[static_cast<std::size_t>(rows - 1)](task, row, panel);
      row += rows;
    }
  }
}

/// Stores block b of four transposed vectors: dims 4 b + j of four keys.
template <class D, class V>
HWY_INLINE void StoreBlocks(D d, V v, float* out, std::int64_t block_stride) {
  if constexpr (hn::MaxLanes(D()) > 4) {
    const hn::Half<D> half;
    StoreBlocks(half, hn::LowerHalf(half, v), out, block_stride);
    StoreBlocks(half, hn::UpperHalf(half, v), out + hn::MaxLanes(half) / 4 * block_stride,
                block_stride);
  } else {
    hn::StoreU(v, d, out);
  }
}

/// Four keys, kLanes dims: transposed in blocks of 4 x 4 within the vectors.
HWY_INLINE void TransposeFour(VF k0, VF k1, VF k2, VF k3, float* out) {
  const F d;
  const hn::Repartition<double, F> d64;
  const auto lo01 = hn::BitCast(d64, hn::InterleaveLower(d, k0, k1));
  const auto hi01 = hn::BitCast(d64, hn::InterleaveUpper(d, k0, k1));
  const auto lo23 = hn::BitCast(d64, hn::InterleaveLower(d, k2, k3));
  const auto hi23 = hn::BitCast(d64, hn::InterleaveUpper(d, k2, k3));
  constexpr std::int64_t kBlock = 4 * kPanelWidth;
  StoreBlocks(d, hn::BitCast(d, hn::InterleaveLower(d64, lo01, lo23)), out, kBlock);
  StoreBlocks(d, hn::BitCast(d, hn::InterleaveUpper(d64, lo01, lo23)), out + kPanelWidth, kBlock);
  StoreBlocks(d, hn::BitCast(d, hn::InterleaveLower(d64, hi01, hi23)), out + 2 * kPanelWidth,
              kBlock);
  StoreBlocks(d, hn::BitCast(d, hn::InterleaveUpper(d64, hi01, hi23)), out + 3 * kPanelWidth,
              kBlock);
}

/// Touches four rows: packing is where memory is met, so it also asks for what is packed next.
HWY_INLINE void PrefetchFour(const NextRows& next, int first) {
  for (int i = first; i < first + 4 && i < next.count; ++i)
    for (int offset = 0; offset < next.row_bytes; offset += 64)
      __builtin_prefetch(static_cast<const char*>(next.rows[i]) + offset, 0, /*locality=*/2);
}

template <class T>
void PackKeys(const void* const* rows, int count, int dim, float* panels, const NextRows& next) {
  using Bits = typename T::Bits;
  for (int key = 0; key < round_up(count, kPanelWidth); key += 4) {
    float* out = panels + key / kPanelWidth * panel_stride(dim, kPanelWidth) + key % kPanelWidth;
    PrefetchFour(next, key);
    const Bits* k[4];
    for (int j = 0; j < 4; ++j)
      k[j] = key + j < count ? static_cast<const Bits*>(rows[key + j]) : nullptr;
    for (int i = 0; i < dim; i += kLanes, out += kLanes * kPanelWidth) {
      VF x[4];
      for (int j = 0; j < 4; ++j)
        x[j] = k[j] != nullptr ? LoadNatural(T(), k[j] + i) : hn::Zero(F());
      TransposeFour(x[0], x[1], x[2], x[3], out);
    }
  }
}

template <class T>
void PackValues(const void* const* rows, int count, int dim, float* panels, const NextRows& next) {
  using Bits = typename T::Bits;
  const F d;
  const std::int64_t panel_size = panel_stride(count, kPanelWidth);
  for (int key = 0; key < count; ++key) {
    if (key % 4 == 0) PrefetchFour(next, key);
    const auto* v = static_cast<const Bits*>(rows[key]);
    float* out = panels + key * kPanelWidth;
    for (int i = 0; i < dim; i += kPanelWidth, out += panel_size)
      for (int j = 0; j < kPanelWidth; j += kLanes)
        hn::Store(LoadNatural(T(), v + i + j), d, out + j);
  }
}

}  // namespace trencadis::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
