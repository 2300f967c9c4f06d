// Decode and other short query tiles: keys and values are read where they lie in the pool, once,
// and meet at most four query rows at a time in registers. Bound by memory, so the order in which
// rows are read, and prefetched, is what matters here.
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
/// Tokens that all heads and rows are done with before the next are touched.
inline constexpr int kTokenBlock = 8;

/// Touches the n-th row of the block of tokens after the one at `token`, n < kTokenBlock * heads,
/// counted in the order in which they lie in memory, so that the hardware's own prefetcher sees a
/// stream. The caller spreads the calls over its arithmetic: a burst of them fills the miss buffers
/// and stalls it. Into the second-level cache, as the block may be larger than the first.
HWY_INLINE void PrefetchAhead(const PoolRows& rows, int token, int n) {
  const int in_block = rows.heads_adjacent ? n / rows.heads : n % kTokenBlock;
  const int head = rows.heads_adjacent ? n % rows.heads : n / kTokenBlock;
  const int ahead = token + kTokenBlock + in_block;
  if (ahead - rows.count >= rows.next_count) return;
  const void* first = ahead < rows.count ? rows.tokens[ahead] : rows.next[ahead - rows.count];
  const char* row = static_cast<const char*>(first) + head * rows.head_bytes;
  for (int offset = 0; offset < rows.row_bytes; offset += kCacheLine)
    __builtin_prefetch(row + offset, /*rw=*/0, /*locality=*/2);
}

template <class T>
HWY_INLINE const typename T::Bits* RowOf(const PoolRows& rows, int token, int head) {
  const auto* first = static_cast<const char*>(rows.tokens[token]);
  return reinterpret_cast<const typename T::Bits*>(first + head * rows.head_bytes);
}

/// Logits of R rows of one head and K keys. R * K accumulators: eight hide the latency of two FMA
/// ports.
template <int R, int K, class T>
HWY_INLINE void ScoreBlock(const ScoreTask& task, int head, int row, int key) {
  using Bits = typename T::Bits;
  static_assert(R * K % 4 == 0 || K == 2);
  const float* q = task.q + (head * task.rows + row) * task.q_stride;
  const Bits* keys[K];
  for (int k = 0; k < K; ++k) keys[k] = RowOf<T>(task.keys, key + k, head);

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

  float* s = task.s + (head * task.rows + row) * task.s_stride + key;
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
HWY_INLINE void ScoreOne(const ScoreTask& task, int head, int row, int key) {
  const float* q = task.q + (head * task.rows + row) * task.q_stride;
  const auto* k = RowOf<T>(task.keys, key, head);
  VF a = hn::Zero(F()), b = hn::Zero(F());
  for (int i = 0; i < task.dim; i += kPair) {
    const Pair x = LoadPair(T(), k + i);
    a = hn::MulAdd(hn::LoadU(F(), q + i), x.a, a);
    b = hn::MulAdd(hn::LoadU(F(), q + i + kLanes), x.b, b);
  }
  task.s[(head * task.rows + row) * task.s_stride + key] =
      hn::GetLane(hn::SumOfLanes(F(), hn::Add(a, b)));
}

template <int R, int K, class T>
HWY_INLINE void ScoreRows(const ScoreTask& task, int head, int row, int key, int keys) {
  int k = key;
  for (; k + K <= key + keys; k += K) {
    if (row == 0)
      for (int j = 0; j < K; ++j) PrefetchAhead(task.keys, key, head * kTokenBlock + k - key + j);
    ScoreBlock<R, K, T>(task, head, row, k);
  }
  for (; k < key + keys; ++k)
    for (int r = 0; r < R; ++r) ScoreOne<T>(task, head, row + r, k);
}

template <class T>
HWY_INLINE void ScoreHead(const ScoreTask& task, int head, int key, int keys) {
  int row = 0;
  for (; row + kStreamRows <= task.rows; row += kStreamRows)
    ScoreRows<kStreamRows, 2, T>(task, head, row, key, keys);
  switch (task.rows - row) {
    case 3:
      return ScoreRows<3, 2, T>(task, head, row, key, keys);
    case 2:
      return ScoreRows<2, 4, T>(task, head, row, key, keys);
    case 1:
      return ScoreRows<1, 8, T>(task, head, row, key, keys);
    default:
      return;
  }
}

template <class T>
void Score(const ScoreTask& task) {
  for (int key = 0; key < task.keys.count; key += kTokenBlock) {
    const int keys = HWY_MIN(kTokenBlock, task.keys.count - key);
    for (int head = 0; head < task.keys.heads; ++head) ScoreHead<T>(task, head, key, keys);
  }
}

/// o[R rows] += p[R, keys] * v over the whole row of the values [key, key + keys) of one head.
template <int R, class T>
HWY_INLINE void AccumulateRows(const AccumulateTask& task, int head, int row, int key, int keys) {
  const F d;
  const int first = head * task.rows + row;
  const float* p = task.p + first * task.p_stride + key;
  float* o = task.o + first * task.o_stride;
  const typename T::Bits* values[kTokenBlock];
  for (int k = 0; k < keys; ++k) values[k] = RowOf<T>(task.values, key + k, head);
  int prefetched = row == 0 ? 0 : kTokenBlock;
  for (int i = 0; i < task.dim; i += kPair) {
    for (const int due = kTokenBlock * (i + kPair) / task.dim; prefetched < due; ++prefetched)
      PrefetchAhead(task.values, key, head * kTokenBlock + prefetched);
    VF a[R], b[R];
    for (int r = 0; r < R; ++r) {
      const VF factor = hn::Set(d, key == 0 ? task.rescale[first + r] : 1.0f);
      a[r] = hn::Mul(hn::LoadU(d, o + r * task.o_stride + i), factor);
      b[r] = hn::Mul(hn::LoadU(d, o + r * task.o_stride + i + kLanes), factor);
    }
    for (int k = 0; k < keys; ++k) {
      const Pair v = LoadPair(T(), values[k] + i);
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

/// `keys` is a constant where this is inlined for a full block, and its loops unroll.
template <class T>
HWY_INLINE void AccumulateHead(const AccumulateTask& task, int head, int key, int keys) {
  int row = 0;
  for (; row + kStreamRows <= task.rows; row += kStreamRows)
    AccumulateRows<kStreamRows, T>(task, head, row, key, keys);
  switch (task.rows - row) {
    case 3:
      return AccumulateRows<3, T>(task, head, row, key, keys);
    case 2:
      return AccumulateRows<2, T>(task, head, row, key, keys);
    case 1:
      return AccumulateRows<1, T>(task, head, row, key, keys);
    default:
      return;
  }
}

template <class T>
void Accumulate(const AccumulateTask& task) {
  for (int key = 0; key < task.values.count; key += kTokenBlock) {
    const int keys = HWY_MIN(kTokenBlock, task.values.count - key);
    for (int head = 0; head < task.values.heads; ++head) {
      if (keys == kTokenBlock)
        AccumulateHead<T>(task, head, key, kTokenBlock);
      else
        AccumulateHead<T>(task, head, key, keys);
    }
  }
}

}  // namespace trencadis::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
