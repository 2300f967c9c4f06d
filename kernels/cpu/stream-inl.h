// Decode and other short query tiles: keys and values are read where they lie in the pool, once,
// and meet at most four query rows at a time in registers. Bound by memory, so the rows that come
// next are prefetched here.
#if defined(TRENCADIS_CPU_STREAM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRENCADIS_CPU_STREAM_INL_H_
#undef TRENCADIS_CPU_STREAM_INL_H_
#else
#define TRENCADIS_CPU_STREAM_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "cpu/microkernels.h"
#include "cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trencadis::cpu::HWY_NAMESPACE {

inline constexpr int kCacheLine = 64;
/// Query rows that share one load of a key.
inline constexpr int kStreamRows = 4;
/// Keys or values between two rounds over the output row.
inline constexpr int kValueBlock = 8;

/// Touches row i of the rows to come. Into the second-level cache: rows of one head lie a whole
/// token apart, often a power of two, and would evict one another from the first.
HWY_INLINE void PrefetchRow(const void* const* rows, int count, int bytes, int i) {
  if (i >= count) return;
  const char* row = static_cast<const char*>(rows[i]);
  for (int offset = 0; offset < bytes; offset += kCacheLine)
    __builtin_prefetch(row + offset, /*rw=*/0, /*locality=*/2);
}

/// Logits of R rows and K keys. R * K accumulators: eight hide the latency of two FMA ports.
template <int R, int K, class T>
HWY_INLINE void ScoreBlock(const ScoreTask& task, int row, int key) {
  using Bits = typename T::Bits;
  static_assert(R * K % 4 == 0 || K == 2);
  const float* q = task.q + row * task.q_stride;
  const Bits* keys[K];
  for (int k = 0; k < K; ++k) keys[k] = static_cast<const Bits*>(task.keys[key + k]);

  VF acc[R][K];
  for (int r = 0; r < R; ++r)
    for (int k = 0; k < K; ++k) acc[r][k] = hn::Zero(F());
  for (int i = 0; i < task.dim; i += kPair) {
    Pair x[K];
    for (int k = 0; k < K; ++k) x[k] = LoadPair(T(), keys[k] + i);
    for (int r = 0; r < R; ++r) {
      const VF qa = hn::LoadU(F(), q + r * task.q_stride + i);
      for (int k = 0; k < K; ++k) acc[r][k] = hn::MulAdd(qa, x[k].a, acc[r][k]);
      const VF qb = hn::LoadU(F(), q + r * task.q_stride + i + kLanes);
      for (int k = 0; k < K; ++k) acc[r][k] = hn::MulAdd(qb, x[k].b, acc[r][k]);
    }
  }

  float* s = task.s + row * task.s_stride + key;
  const hn::FixedTag<float, 4> d4;
  if constexpr (K % 4 == 0) {
    for (int r = 0; r < R; ++r)
      for (int k = 0; k < K; k += 4)
        hn::StoreU(SumLanes4(acc[r][k], acc[r][k + 1], acc[r][k + 2], acc[r][k + 3]), d4,
                   s + r * task.s_stride + k);
  } else {  // two keys: two rows to a vector
    for (int r = 0; r < R; r += 2) {
      const int next = r + 1 < R ? r + 1 : r;
      HWY_ALIGN float sums[4];
      hn::Store(SumLanes4(acc[r][0], acc[r][1], acc[next][0], acc[next][1]), d4, sums);
      std::memcpy(s + r * task.s_stride, sums, 2 * sizeof(float));
      std::memcpy(s + next * task.s_stride, sums + 2, 2 * sizeof(float));
    }
  }
}

/// One row and one key: what is left over.
template <class T>
HWY_INLINE void ScoreOne(const ScoreTask& task, int row, int key) {
  using Bits = typename T::Bits;
  const float* q = task.q + row * task.q_stride;
  const Bits* k = static_cast<const Bits*>(task.keys[key]);
  VF a = hn::Zero(F()), b = hn::Zero(F());
  for (int i = 0; i < task.dim; i += kPair) {
    const Pair x = LoadPair(T(), k + i);
    a = hn::MulAdd(hn::LoadU(F(), q + i), x.a, a);
    b = hn::MulAdd(hn::LoadU(F(), q + i + kLanes), x.b, b);
  }
  task.s[row * task.s_stride + key] = hn::GetLane(hn::SumOfLanes(F(), hn::Add(a, b)));
}

template <int R, int K, class T>
HWY_INLINE void ScoreRows(const ScoreTask& task, int row, int key, int keys) {
  int k = key;
  for (; k + K <= key + keys; k += K) ScoreBlock<R, K, T>(task, row, k);
  for (; k < key + keys; ++k)
    for (int r = 0; r < R; ++r) ScoreOne<T>(task, row + r, k);
}

/// All rows meet a block of keys while it is in the first-level cache.
template <class T>
void Score(const ScoreTask& task) {
  for (int key = 0; key < task.key_count; key += kValueBlock) {
    const int keys = HWY_MIN(kValueBlock, task.key_count - key);
    for (int k = 0; k < keys; ++k)
      PrefetchRow(task.prefetch, task.prefetch_count, task.prefetch_bytes, key + k);
    int row = 0;
    for (; row + kStreamRows <= task.rows; row += kStreamRows)
      ScoreRows<4, 2, T>(task, row, key, keys);
    switch (task.rows - row) {
      case 3:
        ScoreRows<3, 2, T>(task, row, key, keys);
        break;
      case 2:
        ScoreRows<2, 4, T>(task, row, key, keys);
        break;
      case 1:
        ScoreRows<1, 8, T>(task, row, key, keys);
        break;
      default:
        break;
    }
  }
}

/// o[R rows] += p[R, keys] * v over the whole row of the values [key, key + keys).
template <int R, class T, bool kRescale>
HWY_INLINE void AccumulateRows(const AccumulateTask& task, int row, int key, int keys) {
  using Bits = typename T::Bits;
  const F d;
  const float* p = task.p + row * task.p_stride + key;
  float* o = task.o + row * task.o_stride;
  const void* const* values = task.values + key;
  for (int i = 0; i < task.dim; i += kPair) {
    VF a[R], b[R];
    for (int r = 0; r < R; ++r) {
      a[r] = hn::LoadU(d, o + r * task.o_stride + i);
      b[r] = hn::LoadU(d, o + r * task.o_stride + i + kLanes);
      if constexpr (kRescale) {
        const VF factor = hn::Set(d, task.rescale[row + r]);
        a[r] = hn::Mul(a[r], factor);
        b[r] = hn::Mul(b[r], factor);
      }
    }
    for (int k = 0; k < keys; ++k) {
      const Pair v = LoadPair(T(), static_cast<const Bits*>(values[k]) + i);
      for (int r = 0; r < R; ++r) {
        const VF weight = hn::Set(d, p[r * task.p_stride + k]);
        a[r] = hn::MulAdd(weight, v.a, a[r]);
        b[r] = hn::MulAdd(weight, v.b, b[r]);
      }
    }
    for (int r = 0; r < R; ++r) {
      hn::StoreU(a[r], d, o + r * task.o_stride + i);
      hn::StoreU(b[r], d, o + r * task.o_stride + i + kLanes);
    }
  }
}

template <class T, bool kRescale>
HWY_INLINE void AccumulateBlock(const AccumulateTask& task, int key, int keys) {
  int row = 0;
  for (; row + kStreamRows <= task.rows; row += kStreamRows)
    AccumulateRows<4, T, kRescale>(task, row, key, keys);
  switch (task.rows - row) {
    case 3:
      return AccumulateRows<3, T, kRescale>(task, row, key, keys);
    case 2:
      return AccumulateRows<2, T, kRescale>(task, row, key, keys);
    case 1:
      return AccumulateRows<1, T, kRescale>(task, row, key, keys);
    default:
      return;
  }
}

template <class T>
void Accumulate(const AccumulateTask& task) {
  for (int key = 0; key < task.key_count; key += kValueBlock) {
    const int keys = HWY_MIN(kValueBlock, task.key_count - key);
    for (int k = 0; k < keys; ++k)
      PrefetchRow(task.prefetch, task.prefetch_count, task.prefetch_bytes, key + k);
    if (key == 0)
      AccumulateBlock<T, true>(task, key, keys);
    else
      AccumulateBlock<T, false>(task, key, keys);
  }
}

}  // namespace trencadis::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
