// From products to weights: hooks, masks and the step of the online softmax over what a thread
// holds of a tile, s[i][j][c] as accumulators of m16n8 products lie. The same for every main loop;
// a loop says where its rows and keys are.
#pragma once

#include "cuda/collective/block.h"
#include "cuda/collective/launch.h"
#include "cuda/collective/softmax.h"
#include "cuda/ptx/math.h"
#include "cuda/ptx/thread.h"
#include "variant/chain.h"

namespace trencadis::collective {

template <class Config>
inline constexpr bool kMasksLogits =
    variant::kHasHook<typename Config::Functor, variant::kLogitsMask>;
template <class Config>
inline constexpr bool kTransformsLogits =
    variant::kHasHook<typename Config::Functor, variant::kLogitsTransform>;

/// Whether s is a logit already when the softmax sees it. Otherwise the softmax applies the scale,
/// and a negative one turns the sign of the queries.
template <class Config>
inline constexpr bool kScalesLogits = kTransformsLogits<Config> || !Config::kUseSoftmax;

/// What one unit of s is worth as a logit.
template <class Config>
TRENCADIS_DEVICE float logit_unit(const Launch<Config>& launch) {
  return kTransformsLogits<Config> ? 1.0f : launch.scale;
}

/// Tiles of an item that are whole and that the bounds show to all rows whole, [begin, end):
/// nothing of theirs is hidden.
struct ClearTiles {
  int begin = 0;
  int end = 0;
  TRENCADIS_FN bool holds(int tile) const { return tile >= begin && tile < end; }
};

/// Of an item with storage tokens [begin, end), whose first and last row are given.
template <int kTokens, class Config>
TRENCADIS_DEVICE ClearTiles clear_tiles(const Launch<Config>& launch, const Block& block,
                                        const RowEntry& first_row, const RowEntry& last_row,
                                        bool in_order, int begin, int end) {
  const int whole = (end - begin) / kTokens;
  if (!launch.bounds.any()) return {0, whole};
  if (!in_order) return {0, 0};
  const Visible keys = launch.bounds.visible_to_all(block.position(first_row.qo_pos),
                                                    block.position(last_row.qo_pos));
  const int hidden = max_of(keys.first, begin) - begin;
  const int shown = max_of(min_of(keys.last, end - 1), begin - 1) + 1 - begin;
  return {(hidden + kTokens - 1) / kTokens, min_of(whole, shown / kTokens)};
}

/// What a row sees of a thread's columns of a tile, a bit each: bit 2 j + c is element c of the
/// j-th tile of 8. What hides is found in a loop of its own, which is small, and applied in one.
struct VisibleColumns {
  unsigned bits;
  TRENCADIS_FN bool holds(int j, int c) const { return (bits >> (2 * j + c) & 1) != 0; }

  /// Of a tile that lies in order from `tile_position` on; the thread's first column is `own`.
  TRENCADIS_FN static VisibleColumns of(const Visible& keys, int tile_position, int tokens,
                                        int own) {
    // Compared before it is subtracted from: a bound that is none is far enough to overflow.
    const int first = max_of(keys.first, tile_position) - tile_position;
    const int last = max_of(keys.last, tile_position - 1) - tile_position;
    return {below(min_of(last, tokens - 1) + 1 - own) & ~below(first - own)};
  }

 private:
  /// The columns whose distance from the first is below `distance`.
  TRENCADIS_FN static unsigned below(int distance) {
    if (distance <= 0) return 0;
    const int count = distance / 8 * 2 + min_of(distance % 8, 2);
    return count >= 32 ? ~0u : (1u << count) - 1;
  }
};

/// Calls visit(r, j, c) for what a thread holds of its row r in the j-th tile of columns.
template <int kRowTiles, int kKeyTiles, class Visit>
TRENCADIS_DEVICE void each_logit(Visit visit) {
#pragma unroll
  for (int j = 0; j < kKeyTiles; ++j)
#pragma unroll
    for (int c = 0; c < 2; ++c)
#pragma unroll
      for (int r = 0; r < 2 * kRowTiles; ++r) visit(r, j, c);
}

/// Hooks and masks. Afterwards s is the logit: divided by the scale where no hook has seen it and
/// the softmax is still to apply it, for queries whose sign a negative scale has turned.
template <class Config, class Loop, class Source, int kRowTiles, int kKeyTiles>
TRENCADIS_DEVICE void finish_logits(const Loop& loop, const Source& source, int tile,
                                    float (&s)[kRowTiles][kKeyTiles][4]) {
  using Functor = typename Config::Functor;
  constexpr int kThreadRows = 2 * kRowTiles;
  constexpr bool kHooks = kTransformsLogits<Config> || kMasksLogits<Config>;
  constexpr float kHidden = Config::kUseSoftmax ? negative_infinity() : 0.0f;
  static_assert(2 * kKeyTiles <= 32, "a bit a column");
  const auto at = [&](int r, int j, int c) -> float& { return s[r / 2][j][r % 2 * 2 + c]; };
  const Launch<Config>& launch = loop.launch();
  const bool clear = loop.clear_tiles().holds(tile);
  if constexpr (kScalesLogits<Config>) {
    const float scale = launch.negate ? -launch.scale : launch.scale;
    each_logit<kRowTiles, kKeyTiles>([&](int r, int j, int c) { at(r, j, c) *= scale; });
  }
  if (!kHooks && clear) [[likely]]
    return;
  const Block& block = loop.block();
  const bool in_order = source.in_order();
  const int tokens = source.tokens(tile);
  const int first_position = source.position(tile, 0);
  const auto position_of = [&](int token) {
    return in_order ? first_position + min_of(token, tokens - 1) : source.position(tile, token);
  };
  // Read again for each tile that asks: most do not, and registers are dearer.
  RowEntry rows[kThreadRows];
#pragma unroll
  for (int r = 0; r < kThreadRows; ++r) rows[r] = loop.row(loop.thread_row(r));
  if constexpr (kTransformsLogits<Config>)
    each_logit<kRowTiles, kKeyTiles>([&](int r, int j, int c) {
      const int position = position_of(loop.warp_key() + loop.thread_column(j, c));
      at(r, j, c) = Functor::logits_transform(launch.variant, at(r, j, c),
                                              block.logit_coord(rows[r], position));
    });
  if (!kMasksLogits<Config> && clear) [[likely]]
    return;

  VisibleColumns columns[kThreadRows];
  if (in_order && !kMasksLogits<Config>) {
    const int own = loop.warp_key() + loop.thread_column(0, 0);
#pragma unroll
    for (int r = 0; r < kThreadRows; ++r)
      columns[r] = VisibleColumns::of(launch.bounds.visible(block.position(rows[r].qo_pos)),
                                      first_position, tokens, own);
  } else {
#pragma unroll
    for (int r = 0; r < kThreadRows; ++r) columns[r].bits = 0;
#pragma unroll 1
    for (int i = 0; i < 2 * kKeyTiles; ++i) {
      const int token = loop.warp_key() + loop.thread_column(i / 2, i % 2);
      const int position = position_of(token);
#pragma unroll
      for (int r = 0; r < kThreadRows; ++r) {
        bool keep =
            token < tokens && launch.bounds.visible(block.position(rows[r].qo_pos)).holds(position);
        if constexpr (kMasksLogits<Config>)
          keep = keep && Functor::logits_mask(launch.variant, block.logit_coord(rows[r], position));
        columns[r].bits |= (keep ? 1u : 0u) << i;
      }
    }
  }
  each_logit<kRowTiles, kKeyTiles>([&](int r, int j, int c) {
    if (!columns[r].holds(j, c)) at(r, j, c) = kHidden;
  });
}

/// Moves the bases of rows that the tile outgrows, and their sums with them. False where no row of
/// the warp has; otherwise rescale[r] is what the outputs of a row are to be multiplied by. Of a
/// row whose base stays it is 1: its bits are its own.
template <int kRowTiles, int kKeyTiles>
TRENCADIS_DEVICE bool raise_bases(const float (&s)[kRowTiles][kKeyTiles][4],
                                  RowState (&state)[2 * kRowTiles], float factor,
                                  float (&rescale)[2 * kRowTiles]) {
  constexpr int kThreadRows = 2 * kRowTiles;
  const auto at = [&](int r, int i) { return s[r / 2][i / 2][r % 2 * 2 + i % 2]; };
  float largest[kThreadRows];
#pragma unroll
  for (int r = 0; r < kThreadRows; ++r) largest[r] = at(r, 0);
#pragma unroll
  for (int i = 1; i < 2 * kKeyTiles; ++i)
#pragma unroll
    for (int r = 0; r < kThreadRows; ++r) largest[r] = fmaxf(largest[r], at(r, i));
#pragma unroll
  for (int r = 0; r < kThreadRows; ++r) largest[r] = max_of_quad(largest[r]);
  // Of the smallest scales it would be infinite, and minus infinity plus that is no number.
  const float slack = fminf(kSlack / factor, 1e38f);
  bool outgrown = false;
#pragma unroll
  for (int r = 0; r < kThreadRows; ++r)
    outgrown = outgrown || outgrows(state[r], largest[r], slack);
  if (!ptx::any_in_warp(outgrown)) [[likely]]
    return false;
#pragma unroll
  for (int r = 0; r < kThreadRows; ++r)
    rescale[r] =
        outgrows(state[r], largest[r], slack) ? take_base(state[r], largest[r], factor) : 1.0f;
  return true;
}

template <int kRowTiles, int kOutTiles>
TRENCADIS_DEVICE void scale_rows(float (&o)[kRowTiles][kOutTiles][4],
                                 const float (&factor)[2 * kRowTiles]) {
#pragma unroll
  for (int r = 0; r < 2 * kRowTiles; ++r)
#pragma unroll
    for (int j = 0; j < kOutTiles; ++j) {
      o[r / 2][j][r % 2 * 2] *= factor[r];
      o[r / 2][j][r % 2 * 2 + 1] *= factor[r];
    }
}

/// Logits become weights relative to their rows' bases, and add to the rows' sums.
template <int kRowTiles, int kKeyTiles>
TRENCADIS_DEVICE void weigh(float (&s)[kRowTiles][kKeyTiles][4], RowState (&state)[2 * kRowTiles],
                            float factor) {
  constexpr int kThreadRows = 2 * kRowTiles;
  const auto at = [&](int r, int i) -> float& { return s[r / 2][i / 2][r % 2 * 2 + i % 2]; };
  float offset[kThreadRows];
  bool large = false;
#pragma unroll
  for (int r = 0; r < kThreadRows; ++r) {
    offset[r] = offset_of(state[r], factor);
    large = large || !(fabsf(offset[r]) <= kLargestOffset);
  }
  if (ptx::any_in_warp(large)) [[unlikely]] {
#pragma unroll
    for (int r = 0; r < kThreadRows; ++r) {
      if (fabsf(offset[r]) <= kLargestOffset) continue;
#pragma unroll
      for (int i = 0; i < 2 * kKeyTiles; ++i) at(r, i) -= state[r].base;
      offset[r] = 0.0f;
    }
  }
#pragma unroll
  for (int i = 0; i < 2 * kKeyTiles; ++i) {
#pragma unroll
    for (int r = 0; r < kThreadRows; ++r) {
      at(r, i) = ptx::exp2_approx(fmaf(at(r, i), factor, offset[r]));
      state[r].sum += at(r, i);
    }
  }
}

}  // namespace trencadis::collective
