// The state of the rows that a thread holds part of, and the step of the online softmax. Logits
// come in units of their own: weights are 2^(factor (s - base)), so that one factor carries
// sm_scale, log2 e or both.
//
// The base of a row follows its maximum with slack: a maximum that is larger by less than 2^kSlack
// in weight changes nothing, so that outputs are seldom rescaled and the rows of a warp need one
// vote. Weights up to 2^kSlack round as those up to 1 do, in 16 bits as in 32.
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

/// The base, in the units of the logits, and the sum of weights relative to it, of one row: minus
/// infinity until a key is seen. Each of the four threads that share a row sums its own columns;
/// sums meet at the end.
struct RowState {
  float base = negative_infinity();
  float sum = 0.0f;
};

inline constexpr float kSlack = 8.0f;  // as an exponent of 2

TRENCADIS_DEVICE float max_of_quad(float value) {
  value = fmaxf(value, ptx::shuffle_xor(value, 1));
  return fmaxf(value, ptx::shuffle_xor(value, 2));
}
TRENCADIS_DEVICE float sum_of_quad(float value) {
  value += ptx::shuffle_xor(value, 1);
  return value + ptx::shuffle_xor(value, 2);
}

/// Whether a tile's maximum, of a row and in the units of the logits, asks for a new base.
TRENCADIS_DEVICE bool outgrows(const RowState& state, float largest, float slack) {
  return largest > state.base + slack;
}

/// Takes the base; returns what the row's sums so far were multiplied by and its outputs are to be.
TRENCADIS_DEVICE float take_base(RowState& state, float base, float factor) {
  const float rescale =
      state.base == negative_infinity() ? 0.0f : ptx::exp2_approx((state.base - base) * factor);
  state.base = base;
  state.sum *= rescale;
  return rescale;
}

/// What is added to factor * logit to make it the exponent of a weight. It is rounded once, which
/// all weights of a row share until its base changes.
TRENCADIS_DEVICE float offset_of(const RowState& state, float factor) {
  // A row that has seen no key yet: its logits are all minus infinity.
  return state.base == negative_infinity() ? 0.0f : -state.base * factor;
}

/// Offsets up to this are off by 2^-14 at most, less than a weight of 16 bits is. Beyond, the
/// difference to the base comes first, which is exact where it matters whatever the logits.
inline constexpr float kLargestOffset = 1024.0f;

}  // namespace trencadis::collective
