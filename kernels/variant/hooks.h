// What a variant may change, and what it is told. A variant is a struct of static member templates
// ("hooks"); every hook is optional, and those it has are listed in `hooks`, so that a misspelt
// name is an error and not silence:
//
//   struct SoftCap {
//     static constexpr HookSet hooks = kLogitsTransform;
//     template <class P>
//     TRENCADIS_FN static float logits_transform(const P& p, float logit, const LogitCoord& at) {
//       return p.soft_cap * tanh_f32(logit / p.soft_cap);
//     }
//   };
//
// P is a generated struct: one member for each extra tensor (typed const pointer) and scalar
// (float). A row is any type with row[d], a float, and row.size(), the head dim; hooks take its
// type as a template parameter, because in a Chain a row is what the functor before has made of it.
#pragma once

#include "contract/units.h"

namespace trencadis::variant {

using HookSet = unsigned;
/// float query_transform(p, row, dim, RowCoord): element `dim` of the transformed query row;
/// row[d] is an element before the transform. Runs before sm_scale is applied.
inline constexpr HookSet kQueryTransform = 1u << 0;
/// float key_transform(p, row, dim, KeyCoord)
inline constexpr HookSet kKeyTransform = 1u << 1;
/// float value_transform(p, row, dim, KeyCoord)
inline constexpr HookSet kValueTransform = 1u << 2;
/// float logits_transform(p, logit, LogitCoord): logit = (q.k) * sm_scale
inline constexpr HookSet kLogitsTransform = 1u << 3;
/// bool logits_mask(p, LogitCoord): true keeps
inline constexpr HookSet kLogitsMask = 1u << 4;
/// float output_transform(p, value, dim, RowCoord): a final, normalised, merged output element
inline constexpr HookSet kOutputTransform = 1u << 5;
inline constexpr HookSet kAllHooks = (1u << 6) - 1;

/// A query row (token and head).
struct RowCoord {
  int request;
  int qo_token;  // index in the whole ragged q: qo_indptr[request] + qo_pos
  int qo_pos;    // row in the request, 0 .. qo_len - 1
  int qo_head;
  int qo_len;
  int kv_len;  // logical KV length of the request
};

/// A key or value row.
struct KeyCoord {
  int request;
  int kv_pos;  // logical position in the request, 0 .. kv_len - 1
  int kv_head;
  int kv_len;
};

/// One logit.
struct LogitCoord {
  int request;
  int qo_token;
  int qo_pos;
  int kv_pos;
  int qo_head;
  int kv_head;
  int qo_len;
  int kv_len;
};

}  // namespace trencadis::variant
