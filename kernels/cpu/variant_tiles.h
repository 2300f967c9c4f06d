// A variant's hooks inlined into loops over one tile: what VariantOps points to. Compiled at run
// time by the host compiler for a user's variant, and into the library for the stock ones.
#pragma once

#include <math.h>  // for users' hooks: tanhf and its kind are builtin in device code

#include <cmath>

#include "cpu/row_transform.h"
#include "cpu/variant_ops.h"
#include "variant/concept.h"
#include "variant/element_types.h"
#include "variant/stock.h"

namespace trencadis::cpu {

TRENCADIS_FN variant::RowCoord row_coord(const TileCoord& tile, int i) {
  const int fused = tile.first_row + i;
  const int token = fused / tile.group;
  return {.request = tile.request,
          .qo_token = tile.qo_begin + token,
          .qo_pos = token,
          .qo_head = tile.kv_head * tile.group + fused % tile.group,
          .qo_len = tile.qo_len,
          .kv_len = tile.kv_len};
}

TRENCADIS_FN variant::KeyCoord key_coord(const TileCoord& tile, int position) {
  return {
      .request = tile.request, .kv_pos = position, .kv_head = tile.kv_head, .kv_len = tile.kv_len};
}

TRENCADIS_FN variant::LogitCoord logit_coord(const variant::RowCoord& row, int kv_head,
                                             int position) {
  return {.request = row.request,
          .qo_token = row.qo_token,
          .qo_pos = row.qo_pos,
          .kv_pos = position,
          .qo_head = row.qo_head,
          .kv_head = kv_head,
          .qo_len = row.qo_len,
          .kv_len = row.kv_len};
}

/// The tile functions of VariantOps for variant V. P is its parameter struct: typed members, and
/// static P load(const contract::VariantArgs&).
template <class V, class P>
struct VariantTiles {
  using Args = contract::VariantArgs;
  using Rows = RowTransform<V>;

  TRENCADIS_FN static void query(const Args& args, const TileCoord& tile, float* q, int dim,
                                 int stride) {
    const P p = P::load(args);
    for (int i = 0; i < tile.rows; ++i)
      Rows::query(p, q + std::ptrdiff_t{i} * stride, dim, row_coord(tile, i));
  }

  TRENCADIS_FN static void key(const Args& args, const TileCoord& tile, const int* positions,
                               int keys, float* k, int dim, int stride) {
    const P p = P::load(args);
    for (int c = 0; c < keys; ++c)
      Rows::key(p, k + std::ptrdiff_t{c} * stride, dim, key_coord(tile, positions[c]));
  }

  TRENCADIS_FN static void value(const Args& args, const TileCoord& tile, const int* positions,
                                 int keys, float* v, int dim, int stride) {
    const P p = P::load(args);
    for (int c = 0; c < keys; ++c)
      Rows::value(p, v + std::ptrdiff_t{c} * stride, dim, key_coord(tile, positions[c]));
  }

  /// Transforms and masks are two passes: a mask that gathers bits must not keep the arithmetic of
  /// a transform from being vectorised.
  TRENCADIS_FN static void logits(const Args& args, const TileCoord& tile, const int* positions,
                                  int keys, float* s, int stride, bool use_softmax) {
    if constexpr (variant::kHasHook<V, variant::kLogitsTransform>)
      transform_logits(args, tile, positions, keys, s, stride);
    if constexpr (variant::kHasHook<V, variant::kLogitsMask>)
      mask_logits(args, tile, positions, keys, s, stride, use_softmax);
  }

  TRENCADIS_FN static void transform_logits(const Args& args, const TileCoord& tile,
                                            const int* positions, int keys, float* s, int stride) {
    const P p = P::load(args);
    for (int i = 0; i < tile.rows; ++i) {
      const variant::RowCoord row = row_coord(tile, i);
      float* __restrict__ logits = s + std::ptrdiff_t{i} * stride;
      for (int c = 0; c < keys; ++c)
        logits[c] = V::logits_transform(p, logits[c], logit_coord(row, tile.kv_head, positions[c]));
    }
  }

  TRENCADIS_FN static void mask_logits(const Args& args, const TileCoord& tile,
                                       const int* positions, int keys, float* s, int stride,
                                       bool use_softmax) {
    const P p = P::load(args);
    const float hidden = use_softmax ? -__builtin_inff() : 0.0f;
    for (int i = 0; i < tile.rows; ++i) {
      const variant::RowCoord row = row_coord(tile, i);
      float* __restrict__ logits = s + std::ptrdiff_t{i} * stride;
      for (int c = 0; c < keys; ++c) {
        const bool keep = V::logits_mask(p, logit_coord(row, tile.kv_head, positions[c]));
        logits[c] = keep ? logits[c] : hidden;
      }
    }
  }

  TRENCADIS_FN static void output(const Args& args, const TileCoord& tile, float* o, int dim,
                                  int stride) {
    const P p = P::load(args);
    for (int i = 0; i < tile.rows; ++i) {
      const variant::RowCoord row = row_coord(tile, i);
      float* __restrict__ values = o + std::ptrdiff_t{i} * stride;
      for (int d = 0; d < dim; ++d) values[d] = V::output_transform(p, values[d], d, row);
    }
  }
};

/// Hooks that the CPU's main loop can call.
inline constexpr variant::HookSet kCpuHooks = variant::kAllHooks;

template <class V, class P>
constexpr VariantOps make_variant_ops() {
  variant::check_variant<V, P, kCpuHooks>();
  using Tiles = VariantTiles<V, P>;
  VariantOps ops{.abi = kVariantAbi,
                 .hooks = V::hooks,
                 .query = nullptr,
                 .key = nullptr,
                 .value = nullptr,
                 .logits = nullptr,
                 .output = nullptr};
  if constexpr (variant::kHasHook<V, variant::kQueryTransform>) ops.query = &Tiles::query;
  if constexpr (variant::kHasHook<V, variant::kKeyTransform>) ops.key = &Tiles::key;
  if constexpr (variant::kHasHook<V, variant::kValueTransform>) ops.value = &Tiles::value;
  if constexpr (variant::kHasHook<V, variant::kLogitsTransform | variant::kLogitsMask>)
    ops.logits = &Tiles::logits;
  if constexpr (variant::kHasHook<V, variant::kOutputTransform>) ops.output = &Tiles::output;
  return ops;
}

}  // namespace trencadis::cpu
