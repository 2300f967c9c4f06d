// Stock functors that change a logit: soft cap, ALiBi, sigmoid. Composed in this order, which is
// the order that attention is defined in.
#pragma once

#include "variant/hooks.h"
#include "variant/math.h"

namespace trencadis::variant {

/// Where the diagonal of a request lies for a row: key positions up to it are the row's past.
template <class Coord>
TRENCADIS_FN int row_position(const Coord& at) {
  return at.qo_pos + at.kv_len - at.qo_len;
}

/// cap * tanh(logit / cap). Reads the scalar soft_cap > 0.
struct SoftCap {
  static constexpr HookSet hooks = kLogitsTransform;
  template <class P>
  TRENCADIS_FN static float logits_transform(const P& p, float logit, const LogitCoord&) {
    return p.soft_cap * tanh_f32(logit * (1.0f / p.soft_cap));
  }
};

/// A linear bias by distance: slope * (j - p), p the row's position. Reads alibi_slopes [H_q].
struct Alibi {
  static constexpr HookSet hooks = kLogitsTransform;
  template <class P>
  TRENCADIS_FN static float logits_transform(const P& p, float logit, const LogitCoord& at) {
    // Exact for positions up to 2^24. A key's is converted once for all rows.
    const float distance = static_cast<float>(at.kv_pos) - static_cast<float>(row_position(at));
    return logit + p.alibi_slopes[at.qo_head] * distance;
  }
};

/// The weight itself, sigmoid(logit + bias), for use_softmax = false. Reads the scalar
/// sigmoid_bias.
struct Sigmoid {
  static constexpr HookSet hooks = kLogitsTransform;
  template <class P>
  TRENCADIS_FN static float logits_transform(const P& p, float logit, const LogitCoord&) {
    return sigmoid_f32(logit + p.sigmoid_bias);
  }
};

}  // namespace trencadis::variant
