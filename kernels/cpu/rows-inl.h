// Row-wise work: conversion of storage types, the online softmax, scaling.
#if defined(TRENCADIS_CPU_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRENCADIS_CPU_ROWS_INL_H_
#undef TRENCADIS_CPU_ROWS_INL_H_
#else
#define TRENCADIS_CPU_ROWS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <limits>
#include <type_traits>

#include "cpu/microkernels.h"
#include "cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trencadis::cpu::HWY_NAMESPACE {

template <class T>
void LoadRow(const void* src, int n, float* dst) {
  const auto* bits = static_cast<const typename T::Bits*>(src);
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) hn::StoreU(LoadNatural(T(), bits + i), F(), dst + i);
  for (; i < n; ++i) dst[i] = LoadScalar(T(), bits + i);
}

template <class T>
void StoreRow(const float* src, int n, void* dst) {
  auto* bits = static_cast<typename T::Bits*>(dst);
  for (int i = 0; i < n; ++i) StoreScalar(T(), src[i], bits + i);
}

/// bf16: each run of kPair elements is split into its even and its odd ones.
template <class T>
void ToLoadOrder(const float* src, int n, float* dst) {
  if constexpr (std::is_same_v<T, BF16>) {
    for (int i = 0; i < n; i += kPair)
      for (int j = 0; j < kLanes; ++j) {
        dst[i + j] = src[i + 2 * j];
        dst[i + kLanes + j] = src[i + 2 * j + 1];
      }
  } else {
    std::memcpy(dst, src, static_cast<std::size_t>(n) * sizeof(float));
  }
}

template <class T>
void FromLoadOrder(const float* src, int n, float* dst) {
  if constexpr (std::is_same_v<T, BF16>) {
    for (int i = 0; i < n; i += kPair)
      for (int j = 0; j < kLanes; ++j) {
        dst[i + 2 * j] = src[i + j];
        dst[i + 2 * j + 1] = src[i + kLanes + j];
      }
  } else {
    std::memcpy(dst, src, static_cast<std::size_t>(n) * sizeof(float));
  }
}

inline void Softmax(const SoftmaxTask& task) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const F d;
  for (int r = 0; r < task.rows; ++r) {
    float* s = task.s + r * task.s_stride;
    for (int c = task.cols; c < task.padded_cols; ++c) s[c] = -kInfinity;
    VF largest = hn::Set(d, task.row_max[r]);
    for (int c = 0; c < task.padded_cols; c += kLanes)
      largest = hn::Max(largest, hn::LoadU(d, s + c));
    const float row_max = hn::GetLane(hn::MaxOfLanes(d, largest));
    // A row that has seen no key yet keeps weights 0 = exp(-inf - 0), and no NaN arises.
    const VF shift = hn::Set(d, row_max == -kInfinity ? 0.0f : row_max);
    VF sum = hn::Zero(d);
    for (int c = 0; c < task.padded_cols; c += kLanes) {
      const VF weight = Exp(hn::Sub(hn::LoadU(d, s + c), shift));
      sum = hn::Add(sum, weight);
      hn::StoreU(weight, d, s + c);
    }
    const float rescale = hn::GetLane(Exp(hn::Sub(hn::Set(d, task.row_max[r]), shift)));
    task.rescale[r] = rescale;
    task.row_sum[r] = task.row_sum[r] * rescale + hn::GetLane(hn::SumOfLanes(d, sum));
    task.row_max[r] = row_max;
  }
}

inline void Scale(float* row, int n, float factor) {
  const VF f = hn::Set(F(), factor);
  for (int i = 0; i < n; i += kLanes) hn::StoreU(hn::Mul(hn::LoadU(F(), row + i), f), F(), row + i);
}

inline void Divide(float* row, int n, float divisor) {
  const VF f = hn::Set(F(), divisor);
  for (int i = 0; i < n; i += kLanes) hn::StoreU(hn::Div(hn::LoadU(F(), row + i), f), F(), row + i);
}

inline void AddScaled(float* acc, const float* x, int n, float weight) {
  const VF w = hn::Set(F(), weight);
  int i = 0;
  for (; i + kLanes <= n; i += kLanes)
    hn::StoreU(hn::MulAdd(w, hn::LoadU(F(), x + i), hn::LoadU(F(), acc + i)), F(), acc + i);
  for (; i < n; ++i) acc[i] += weight * x[i];
}

}  // namespace trencadis::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
