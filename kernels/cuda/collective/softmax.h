// The state of the rows that a thread holds part of, and the step of the online softmax. Logits
// come in units of their own: weights are 2^(factor (s - max)), so that one factor carries
// sm_scale, log2 e or both, and costs one multiplication an element. The difference is taken first:
// it is exact where it matters, and logits of any size that float32 holds stay finite.
#pragma once

#include "contract/units.h"
#include "cuda/ptx/math.h"
#include "cuda/ptx/thread.h"

namespace trencadis::collective {

inline constexpr float kLog2E = 1.44269504f;
inline constexpr float kLn2 = 0.693147182f;

TRENCADIS_FN constexpr float negative_infinity() {
  return __builtin_bit_cast(float, 0xff800000u);
}

/// The maximum, in the units of the logits, and the sum of weights relative to it, of one row. Each
/// of the four threads that share a row sums its own columns; sums meet at the end.
struct RowState {
  float max = negative_infinity();
  float sum = 0.0f;
};

TRENCADIS_DEVICE float max_of_quad(float value) {
  value = fmaxf(value, ptx::shuffle_xor(value, 1));
  return fmaxf(value, ptx::shuffle_xor(value, 2));
}
TRENCADIS_DEVICE float sum_of_quad(float value) {
  value += ptx::shuffle_xor(value, 1);
  return value + ptx::shuffle_xor(value, 2);
}

/// Logits of one row become weights; returns what the row's output so far is to be multiplied by.
/// `at(i)` is the i-th of the row's `kCount` logits in this thread.
template <int kCount, class At>
TRENCADIS_DEVICE float weigh_row(RowState& state, float factor, At at) {
  float largest = state.max;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    largest = fmaxf(largest, at(i));
  }
  largest = max_of_quad(largest);
  // A row that has seen no key yet has no finite maximum: its weights are all 0.
  const float base = largest == negative_infinity() ? 0.0f : largest;
  const float rescale = ptx::exp2_approx((state.max - base) * factor);
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    at(i) = ptx::exp2_approx((at(i) - base) * factor);
    sum += at(i);
  }
  state.max = largest;
  state.sum = state.sum * rescale + sum;
  return rescale;
}

}  // namespace trencadis::collective
