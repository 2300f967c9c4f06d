// Attention of one work item on tensor cores: S = Q K^T, the online softmax, O += P V, tile by tile
// of keys, with the copies of kStages - 1 tiles under way while one is multiplied.
//
// The same for every storage, variant and architecture with mma.sync. What differs is asked of a
// collaborator: KvSource says where tokens lie, the functor's hooks are inlined where they act, the
// epilogue takes the state of the rows.
#pragma once

#include "contract/params.h"
#include "cuda/collective/block.h"
#include "cuda/collective/kv_source.h"
#include "cuda/collective/launch.h"
#include "cuda/collective/queries.h"
#include "cuda/collective/shape.h"
#include "cuda/collective/softmax.h"
#include "cuda/collective/transform.h"
#include "cuda/ptx/convert.h"
#include "cuda/ptx/mma.h"
#include "cuda/ptx/thread.h"
#include "cuda/tile/fragments.h"
#include "variant/chain.h"

namespace trencadis::collective {

template <class Config, class Tile>
class TensorLoop {
 public:
  using Shape = TileShape<Config, Tile>;
  using Functor = typename Config::Functor;
  using Tag = typename Config::Element;
  using Source = KvSource<Config, Shape>;

  static constexpr int kRowTiles = Shape::kRowTiles;
  static constexpr int kKeyTiles = Shape::kWarpKeys / 8;  // of 8 columns of S
  static constexpr int kOutTiles = Shape::kDimVo / 8;     // of 8 columns of O
  static constexpr int kThreadRows = 2 * kRowTiles;       // rows that a thread holds part of
  static constexpr bool kMasks = variant::kHasHook<Functor, variant::kLogitsMask>;
  static constexpr bool kTransforms = variant::kHasHook<Functor, variant::kLogitsTransform>;

  TRENCADIS_DEVICE TensorLoop(const Launch<Config>& launch, const Block& block)
      : launch_(launch), block_(block), thread_(ptx::opaque(ptx::thread_index())) {}

  /// Attends the block to storage tokens [begin, end). Afterwards the state is this thread's part
  /// of the rows, and the ring of stages is free.
  TRENCADIS_DEVICE void run(int begin, int end) {
    const Source source(launch_, block_, begin, end);
    start(source);
    for (int tile = 0; tile < source.tiles(); ++tile) {
      ptx::wait_copies<Shape::kStages - 2>();  // this tile's
      ptx::sync_cta();                         // everybody's, and the last tile's stage is free
      source.copy(tile + Shape::kStages - 1);
      const typename Source::Lookup ahead = source.look_up(tile + Shape::kStages);
      transform_tokens<Config, Shape>(launch_, block_, source, tile);
      attend(source, tile);
      source.publish(tile + Shape::kStages, ahead);
    }
    ptx::wait_copies<0>();
    ptx::sync_cta();
  }

  /// What one unit of s is worth as a logit.
  TRENCADIS_DEVICE float unit() const { return kTransforms ? 1.0f : launch_.scale; }

  // What the epilogue takes.
  float o[kRowTiles][kOutTiles][4];
  RowState state[kThreadRows];

  /// Whether the warp has rows and keys of a tile.
  TRENCADIS_DEVICE bool has_part() const {
    return Shape::kTileWarps == Config::kWarps || thread_ < Shape::kTileWarps * 32;
  }

 private:
  TRENCADIS_DEVICE void start(const Source& source) {
    Queries<Config, Shape>::place_rows(block_, launch_.shared);
    // Once an item: what is not unrolled does not have to be fetched.
#pragma unroll 1
    for (int tile = 0; tile < Shape::kStages; ++tile) source.publish(tile, source.look_up(tile));
    ptx::sync_cta();
    Queries<Config, Shape>::copy(launch_.params, block_, launch_.shared);
#pragma unroll 1
    for (int tile = 0; tile < Shape::kStages - 1; ++tile) source.copy(tile);
    Queries<Config, Shape>::transform(launch_.variant, block_, launch_.shared);
    first_position_ = block_.position(Queries<Config, Shape>::row(launch_.shared, 0).qo_pos);
    last_position_ =
        block_.position(Queries<Config, Shape>::row(launch_.shared, block_.rows - 1).qo_pos);
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i)
#pragma unroll
      for (int j = 0; j < kOutTiles; ++j)
#pragma unroll
        for (int c = 0; c < 4; ++c) o[i][j][c] = 0.0f;
  }

  // --- who holds what ----------------------------------------------------------------------------

  TRENCADIS_DEVICE int query_warp() const {
    return (thread_ >> 5) % Shape::kQueryWarps;
  }
  TRENCADIS_DEVICE int kv_warp() const {
    return (thread_ >> 5) / Shape::kQueryWarps;
  }
  /// First key of the warp in a tile.
  TRENCADIS_DEVICE int warp_key() const {
    return kv_warp() * Shape::kWarpKeys;
  }

 public:
  /// First row of the warp.
  TRENCADIS_DEVICE int warp_row() const {
    return query_warp() * Shape::kWarpRows;
  }
  /// Row of the tile that the thread's r-th row is.
  TRENCADIS_DEVICE int thread_row(int r) const {
    return warp_row() + r / 2 * 16 + r % 2 * 8 + (thread_ & 31) / 4;
  }
  /// Column of the j-th tile of 8 in which element c of an accumulator lies.
  TRENCADIS_DEVICE int thread_column(int j, int c) const {
    return j * 8 + thread_ % 4 * 2 + c % 2;
  }
  TRENCADIS_DEVICE int state_row(int r) const {
    return kv_warp() * Shape::kRows + thread_row(r);
  }

 private:
  // --- one tile ----------------------------------------------------------------------------------

  TRENCADIS_DEVICE void attend(const Source& source, int tile) {
    float s[kRowTiles][kKeyTiles][4];
    if (has_part()) {
      score(source.keys(tile), s);
      finish_logits(source, tile, s);
      if constexpr (Config::kUseSoftmax) weigh(s);
    }
    if constexpr (kMasks) clear_unseen_values(source.values(tile), s);
    if (has_part()) accumulate(source.values(tile), s);
  }

  /// Of the products of one step: of the warp's row tiles, and of two column tiles.
  struct RowOperand {
    unsigned tile[kRowTiles][4];
  };
  struct ColumnOperand {
    unsigned r[4];
  };

  /// Operands are loaded one pair of key tiles ahead of the products that take them.
  TRENCADIS_DEVICE void score(ptx::SharedAddress keys, float (&s)[kRowTiles][kKeyTiles][4]) const {
    using Queries = typename Shape::QueryTile;
    using Keys = typename Shape::KeyTile;
    constexpr int kSteps = Shape::kDimQk / 16;
    constexpr int kPairs = kKeyTiles / 2;
    const ptx::SharedAddress query_walk = tile::walk_rows<Queries>(
        ptx::shared_place(launch_.shared) + Shape::kQuery, warp_row(), thread_ & 31);
    const ptx::SharedAddress key_walk = tile::walk_keys<Keys>(keys, warp_key(), thread_ & 31);
    RowOperand rows, next_rows;
    ColumnOperand pair, next_pair;
    const auto load_rows = [&](int step) {
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i)
        tile::load_rows<Queries>(next_rows.tile[i], query_walk, 16 * i, step);
    };
    const auto load_keys = [&](int p, int step) {
      tile::load_keys<Keys>(next_pair.r, key_walk, 16 * p, step);
    };
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i)
#pragma unroll
      for (int j = 0; j < kKeyTiles; ++j)
#pragma unroll
        for (int c = 0; c < 4; ++c) s[i][j][c] = 0.0f;
    load_rows(0);
    load_keys(0, 0);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      rows = next_rows;
#pragma unroll
      for (int p = 0; p < kPairs; ++p) {
        pair = next_pair;
        if (p + 1 < kPairs) {
          load_keys(p + 1, step);
        } else if (step + 1 < kSteps) {
          load_rows(step + 1);
          load_keys(0, step + 1);
        }
#pragma unroll
        for (int i = 0; i < kRowTiles; ++i) {
          ptx::mma_16x8x16<Tag>(s[i][2 * p], rows.tile[i], pair.r[0], pair.r[1]);
          ptx::mma_16x8x16<Tag>(s[i][2 * p + 1], rows.tile[i], pair.r[2], pair.r[3]);
        }
      }
    }
  }

  TRENCADIS_DEVICE static void negate(float (&s)[kRowTiles][kKeyTiles][4]) {
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i)
#pragma unroll
      for (int j = 0; j < kKeyTiles; ++j)
#pragma unroll
        for (int c = 0; c < 4; ++c) s[i][j][c] = -s[i][j][c];
  }

  /// What one unit of s is worth as an exponent of 2.
  TRENCADIS_DEVICE float factor() const {
    return unit() * kLog2E;
  }

  /// Hooks and masks. Afterwards s is the logit: divided by the scale where no hook has seen it and
  /// the softmax is still to apply it.
  TRENCADIS_DEVICE void finish_logits(const Source& source, int tile,
                                      float (&s)[kRowTiles][kKeyTiles][4]) const {
    constexpr bool kScaled = kTransforms || !Config::kUseSoftmax;
    const int tokens = source.tokens(tile);
    const bool bounded =
        launch_.bounds.any() &&
        (!source.in_order() ||
         !launch_.bounds.hide_none(first_position_, last_position_, source.position(tile, 0),
                                   source.position(tile, tokens - 1)));
    const bool hides = kMasks || bounded || tokens < Shape::kTokens;
    if (!kScaled && launch_.negate) negate(s);
    if (!kScaled && !hides) return;
    const float scale = launch_.negate ? -launch_.scale : launch_.scale;
    // Read again for each tile that asks: most do not, and registers are dearer.
    RowEntry rows[kThreadRows];
    Visible visible[kThreadRows];
#pragma unroll
    for (int r = 0; r < kThreadRows; ++r) {
      rows[r] = Queries<Config, Shape>::row(launch_.shared, thread_row(r));
      visible[r] = launch_.bounds.visible(block_.position(rows[r].qo_pos));
    }
    constexpr float kHidden = Config::kUseSoftmax ? negative_infinity() : 0.0f;
#pragma unroll
    for (int j = 0; j < kKeyTiles; ++j) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int token = warp_key() + thread_column(j, c);
        const int position = source.position(tile, token);
#pragma unroll
        for (int r = 0; r < kThreadRows; ++r) {
          float& logit = s[r / 2][j][r % 2 * 2 + c];
          if constexpr (kScaled) logit *= scale;
          if constexpr (kTransforms)
            logit = Functor::logits_transform(launch_.variant, logit,
                                              block_.logit_coord(rows[r], position));
          if (!hides) continue;
          bool keep = token < tokens && visible[r].holds(position);
          if constexpr (kMasks)
            keep = keep &&
                   Functor::logits_mask(launch_.variant, block_.logit_coord(rows[r], position));
          logit = keep ? logit : kHidden;
        }
      }
    }
  }

  TRENCADIS_DEVICE void weigh(float (&s)[kRowTiles][kKeyTiles][4]) {
    const auto at = [&](int r, int i) -> float& { return s[r / 2][i / 2][r % 2 * 2 + i % 2]; };
    float largest[kThreadRows];
#pragma unroll
    for (int r = 0; r < kThreadRows; ++r) largest[r] = at(r, 0);
#pragma unroll
    for (int i = 1; i < 2 * kKeyTiles; ++i)
#pragma unroll
      for (int r = 0; r < kThreadRows; ++r) largest[r] = fmaxf(largest[r], at(r, i));
#pragma unroll
    for (int r = 0; r < kThreadRows; ++r) largest[r] = max_of_quad(largest[r]);
    raise_bases(largest);
    float offset[kThreadRows];
    bool large = false;
#pragma unroll
    for (int r = 0; r < kThreadRows; ++r) {
      offset[r] = offset_of(state[r], factor());
      large = large || !(fabsf(offset[r]) <= kLargestOffset);
    }
    if (ptx::any_in_warp(large)) {
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
        at(r, i) = ptx::exp2_approx(fmaf(at(r, i), factor(), offset[r]));
        state[r].sum += at(r, i);
      }
    }
  }

  TRENCADIS_DEVICE void raise_bases(const float (&largest)[kThreadRows]) {
    // Of the smallest scales it would be infinite, and minus infinity plus that is no number.
    const float slack = fminf(kSlack / factor(), 1e38f);
    bool outgrown = false;
#pragma unroll
    for (int r = 0; r < kThreadRows; ++r)
      outgrown = outgrown || outgrows(state[r], largest[r], slack);
    if (!ptx::any_in_warp(outgrown)) return;
#pragma unroll
    for (int r = 0; r < kThreadRows; ++r) {
      if (!outgrows(state[r], largest[r], slack)) continue;  // its bits are its own
      const float rescale = take_base(state[r], largest[r], factor());
#pragma unroll
      for (int j = 0; j < kOutTiles; ++j) {
        o[r / 2][j][r % 2 * 2] *= rescale;
        o[r / 2][j][r % 2 * 2 + 1] *= rescale;
      }
    }
  }

  TRENCADIS_DEVICE void accumulate(ptx::SharedAddress values,
                                   const float (&s)[kRowTiles][kKeyTiles][4]) {
    using Values = typename Shape::ValueTile;
    constexpr int kSteps = Shape::kWarpKeys / 16;
    constexpr int kParts = kOutTiles / 2;
    const ptx::SharedAddress walk = tile::walk_rows<Values>(values, warp_key(), thread_ & 31);
    ColumnOperand pair, next_pair;
    tile::load_values<Values>(next_pair.r, walk, 0, 0);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      RowOperand weights;
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
        // The accumulators of two products side by side are the row operand of the next.
        const auto& left = s[i][2 * step];
        const auto& right = s[i][2 * step + 1];
        weights.tile[i][0] = ptx::pack<Tag>(left[0], left[1]);
        weights.tile[i][1] = ptx::pack<Tag>(left[2], left[3]);
        weights.tile[i][2] = ptx::pack<Tag>(right[0], right[1]);
        weights.tile[i][3] = ptx::pack<Tag>(right[2], right[3]);
      }
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        pair = next_pair;
        if (part + 1 < kParts)
          tile::load_values<Values>(next_pair.r, walk, 16 * step, part + 1);
        else if (step + 1 < kSteps)
          tile::load_values<Values>(next_pair.r, walk, 16 * (step + 1), 0);
#pragma unroll
        for (int i = 0; i < kRowTiles; ++i) {
          ptx::mma_16x8x16<Tag>(o[i][2 * part], weights.tile[i], pair.r[0], pair.r[1]);
          ptx::mma_16x8x16<Tag>(o[i][2 * part + 1], weights.tile[i], pair.r[2], pair.r[3]);
        }
      }
    }
  }

  // --- what only some variants pay for -----------------------------------------------------------

  /// A value that no row gives weight to may be garbage, and 0 * NaN is NaN.
  TRENCADIS_DEVICE void clear_unseen_values(ptx::SharedAddress values,
                                            const float (&s)[kRowTiles][kKeyTiles][4]) const {
    auto* seen = reinterpret_cast<int*>(launch_.shared + Shape::kSeenKeys);
    for (int i = thread_; i < Shape::kTokens; i += Shape::kThreads) seen[i] = 0;
    ptx::sync_cta();
#pragma unroll
    for (int j = 0; j < kKeyTiles; ++j) {
      if (!has_part()) break;
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        bool any = false;
#pragma unroll
        for (int r = 0; r < kThreadRows; ++r) any |= s[r / 2][j][r % 2 * 2 + c] != 0.0f;
        if (any) seen[warp_key() + thread_column(j, c)] = 1;
      }
    }
    ptx::sync_cta();
    using Values = typename Shape::ValueTile;
    for (int i = thread_; i < Shape::kTokens * Values::kChunks; i += Shape::kThreads) {
      const int token = i / Values::kChunks;
      if (seen[token] == 0)
        ptx::store_shared_16(values + Values::offset(token, i % Values::kChunks), ptx::Bytes16{});
    }
    ptx::sync_cta();
  }

  const Launch<Config>& launch_;
  const Block& block_;
  const int thread_;
  int first_position_ = 0;  // of the block's first and last row, on the axis of the keys
  int last_position_ = 0;
};

}  // namespace trencadis::collective
