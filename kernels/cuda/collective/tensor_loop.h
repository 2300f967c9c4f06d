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
#include "cuda/collective/logits.h"
#include "cuda/collective/queries.h"
#include "cuda/collective/row_scratch.h"
#include "cuda/collective/shape.h"
#include "cuda/collective/softmax.h"
#include "cuda/collective/transform.h"
#include "cuda/collective/warp_products.h"
#include "cuda/ptx/thread.h"
#include "cuda/tile/fragments.h"

namespace trencadis::collective {

template <class Config, class Tile>
class TensorLoop {
 public:
  using Shape = TileShape<Config, Tile>;
  using Tag = typename Config::Element;
  using Source = KvSource<Config, Shape>;
  using QueryTile = typename Shape::QueryTile;
  using KeyTile = typename Shape::KeyTile;
  using ValueTile = typename Shape::ValueTile;

  static constexpr int kRowTiles = Shape::kRowTiles;
  static constexpr int kKeyTiles = Shape::kWarpKeys / 8;  // of 8 columns of S
  static constexpr int kOutTiles = Shape::kDimVo / 8;     // of 8 columns of O
  static constexpr int kThreadRows = 2 * kRowTiles;       // rows that a thread holds part of

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

  /// What one unit of s is worth as a logit, and as an exponent of 2.
  TRENCADIS_DEVICE float unit() const { return logit_unit(launch_); }
  TRENCADIS_DEVICE float factor() const { return unit() * kLog2E; }

  // What the epilogue takes.
  float o[kRowTiles][kOutTiles][4];
  TRENCADIS_DEVICE const RowState& state(int r) const { return softmax_.state[r]; }

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
    if (!kScalesLogits<Config> && launch_.negate) [[unlikely]] {
      ptx::wait_copies<0>();
      ptx::sync_cta();
      negate_rows<QueryTile>(ptx::shared_place(launch_.shared) + Shape::kQuery, block_.rows,
                             thread_, Shape::kThreads);
    }
    clear_ =
        collective::clear_tiles<Shape::kTokens>(launch_, block_, row(0), row(block_.rows - 1),
                                                source.in_order(), source.begin(), source.end());
    clear_sums(o);
  }

  // --- who holds what ----------------------------------------------------------------------------

  TRENCADIS_DEVICE int query_warp() const {
    return (thread_ >> 5) % Shape::kQueryWarps;
  }
  TRENCADIS_DEVICE int kv_warp() const {
    return (thread_ >> 5) / Shape::kQueryWarps;
  }

 public:
  /// First key of the warp in a tile.
  TRENCADIS_DEVICE int warp_key() const {
    return kv_warp() * Shape::kWarpKeys;
  }
  TRENCADIS_DEVICE const Launch<Config>& launch() const {
    return launch_;
  }
  TRENCADIS_DEVICE const Block& block() const {
    return block_;
  }
  TRENCADIS_DEVICE const ClearTiles& clear_tiles() const {
    return clear_;
  }
  TRENCADIS_DEVICE RowEntry row(int r) const {
    return Queries<Config, Shape>::row(launch_.shared, r);
  }
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
  TRENCADIS_DEVICE void weigh(float (&s)[kRowTiles][kKeyTiles][4]) {
    float rescale[kThreadRows];
    if (raise_bases(s, softmax_, factor(), rescale)) scale_rows(o, rescale);
    collective::weigh(s, softmax_, factor());
  }

  // --- one tile ----------------------------------------------------------------------------------

  TRENCADIS_DEVICE void attend(const Source& source, int tile) {
    float s[kRowTiles][kKeyTiles][4];
    if (has_part()) {
      const ptx::SharedAddress queries = ptx::shared_place(launch_.shared) + Shape::kQuery;
      multiply_keys<Tag, QueryTile, KeyTile, Shape::kDimQk / 16>(
          tile::walk_rows<QueryTile>(queries, warp_row(), thread_ & 31),
          tile::walk_keys<KeyTile>(source.keys(tile), warp_key(), thread_ & 31), s);
      finish_logits<Config>(*this, source, tile, s);
      if constexpr (Config::kUseSoftmax) weigh(s);
    }
    if constexpr (kMasksLogits<Config>) clear_unseen_values(source.values(tile), s);
    if (has_part())
      multiply_values<Tag, ValueTile>(
          tile::walk_rows<ValueTile>(source.values(tile), warp_key(), thread_ & 31), s, o);
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
    for (int i = thread_; i < Shape::kTokens * ValueTile::kChunks; i += Shape::kThreads) {
      const int token = i / ValueTile::kChunks;
      if (seen[token] == 0)
        ptx::store_shared_16(values + ValueTile::offset(token, i % ValueTile::kChunks),
                             ptx::Bytes16{});
    }
    ptx::sync_cta();
  }

  const Launch<Config>& launch_;
  const Block& block_;
  const int thread_;
  ClearTiles clear_;
  SoftmaxRows<kRowTiles> softmax_;
};

}  // namespace trencadis::collective
