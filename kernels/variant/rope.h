// Rotary position embedding, applied to queries and keys as they are read.
#pragma once

#include "variant/hooks.h"
#include "variant/logits.h"
#include "variant/math.h"

namespace trencadis::variant {

/// Rotates the pairs of the leading rope_dim elements by position * rope_inv_freq[pair]. Pairs are
/// (d, d + rope_dim / 2), or (2d, 2d + 1) where rope_interleaved is not 0.
///
/// Reads rope_inv_freq: float32 [rope_dim / 2] and the scalars rope_dim (0: the whole row) and
/// rope_interleaved. A row's position is i + l_kv - l_q and a key's is j; where the variant also
/// declares q_positions: int32 [nnz_q], kv_positions: int32 and kv_position_indptr: int64 [B],
/// positions come from there.
struct Rope {
  static constexpr HookSet hooks = kQueryTransform | kKeyTransform;

  template <class P, class Row>
  TRENCADIS_FN static float query_transform(const P& p, const Row& row, int dim,
                                            const RowCoord& at) {
    return rotated_element(p, row, dim, position(p, at));
  }

  template <class P, class Row>
  TRENCADIS_FN static float key_transform(const P& p, const Row& row, int dim, const KeyCoord& at) {
    return rotated_element(p, row, dim, position(p, at));
  }

  template <class P>
  TRENCADIS_FN static int position(const P& p, const RowCoord& at) {
    if constexpr (requires { p.q_positions; }) {
      if (p.q_positions != nullptr) return p.q_positions[at.qo_token];
    }
    return row_position(at);
  }

  template <class P>
  TRENCADIS_FN static int position(const P& p, const KeyCoord& at) {
    if constexpr (requires { p.kv_positions; }) {
      if (p.kv_positions != nullptr)
        return p.kv_positions[p.kv_position_indptr[at.request] + at.kv_pos];
    }
    return at.kv_pos;
  }

  /// Elements of a row of `row_dim` that rotate; even.
  template <class P>
  TRENCADIS_FN static int rotary_dim(const P& p, int row_dim) {
    const int declared = static_cast<int>(p.rope_dim);
    return (declared > 0 && declared < row_dim ? declared : row_dim) & ~1;
  }

 private:
  template <class P, class Row>
  TRENCADIS_FN static float rotated_element(const P& p, const Row& row, int dim, int position) {
    const int rotary = rotary_dim(p, row.size());
    if (dim >= rotary) return row[dim];
    const bool interleaved = p.rope_interleaved != 0.0f;
    const int half = rotary / 2;
    const bool second = interleaved ? (dim & 1) != 0 : dim >= half;
    const int pair = interleaved ? dim >> 1 : (second ? dim - half : dim);
    const int distance = interleaved ? 1 : half;
    const Rotation turn = rotation(position, p.rope_inv_freq[pair]);
    return second ? row[dim] * turn.cos + row[dim - distance] * turn.sin
                  : row[dim] * turn.cos - row[dim + distance] * turn.sin;
  }
};

}  // namespace trencadis::variant
