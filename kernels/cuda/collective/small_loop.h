// Attention of a work item of few rows in a CTA with roles: the warps of the consumers share the
// keys of a tile, each keeps the state of all rows over its own, and the states meet in the
// epilogue. The products are mma.sync: such items wait for memory.
#pragma once

#include "cuda/collective/launch.h"
#include "cuda/collective/logits.h"
#include "cuda/collective/ring_consumer.h"
#include "cuda/collective/ring_layout.h"
#include "cuda/collective/softmax.h"
#include "cuda/collective/warp_products.h"
#include "cuda/ptx/thread.h"
#include "cuda/tile/fragments.h"

namespace trencadis::collective {

/// What the epilogue asks about the shape.
template <class Config, class Tile>
struct SmallShape {
  using Layout = RingLayout<Config>;
  static constexpr int kRows = Tile::kRows;
  static_assert(kRows == 16);
  static constexpr int kThreads = Layout::kThreads;
  static constexpr int kWarpKeys = max_of(16, Layout::kTokens / Config::kWarps);
  static constexpr int kKvWarps = Layout::kTokens / kWarpKeys;
  static constexpr int kStateRows = kKvWarps * kRows;
  static constexpr int kDimVo = Layout::kDimVo;
  static constexpr int kStates = Layout::kStates;
  static constexpr int kOutput = round_up(kStates + 2 * kStateRows * int(sizeof(float)), 128);
  static constexpr int kSlice = min_of(kDimVo, 32);
  static constexpr int kSlicePad = 8;  // floats between rows
  static constexpr int kBytes = kOutput + kStateRows * (kSlice + kSlicePad) * int(sizeof(float));

  TRENCADIS_DEVICE static void sync() { sync_consumers<Config>(); }
};

template <class Config, class Tile>
class SmallLoop : public RingItem<Config> {
 public:
  using Shape = SmallShape<Config, Tile>;
  using Layout = RingLayout<Config>;
  using Tag = typename Config::Element;
  using QueryTile = typename Layout::QueryTile;
  using KeyTile = typename Layout::KeyTile;
  using ValueTile = typename Layout::ValueTile;
  static constexpr int kKeyTiles = Shape::kWarpKeys / 8;
  static constexpr int kOutTiles = Layout::kDimVo / 8;
  static constexpr int kThreadRows = 2;

  TRENCADIS_DEVICE SmallLoop(const Launch<Config>& launch, int buffer)
      : RingItem<Config>(launch, buffer), clear_(this->clear_for(0, Shape::kRows - 1)) {}

  TRENCADIS_DEVICE void run(RingReader<Config>& ring) {
    RingSource<Config> source = this->source();
    clear_sums(o);
    const int lane = ptx::lane_index();
    const ptx::SharedAddress query_walk = tile::walk_rows<QueryTile>(this->queries(), 0, lane);
    const int tiles = source.tiles();
#pragma unroll 1
    for (int t = 0; t < tiles; ++t) {
      float s[1][kKeyTiles][4];
      source.slot = ring.take();
      if (has_part()) {
        multiply_keys<Tag, QueryTile, KeyTile, Layout::kDimQk / 16>(
            query_walk, tile::walk_keys<KeyTile>(ring.tile(source.slot), warp_key(), lane), s);
        finish_logits<Config>(*this, source, t, s);
      }
      ring.release(source.slot);
      const int slot = ring.take();
      if (has_part()) {
        if constexpr (Config::kUseSoftmax) {
          float rescale[kThreadRows];
          if (raise_bases(s, softmax_, this->factor(), rescale)) scale_rows(o, rescale);
          weigh(s, softmax_, this->factor());
        }
        multiply_values<Tag, ValueTile>(
            tile::walk_rows<ValueTile>(ring.tile(slot), warp_key(), lane), s, o);
      }
      ring.release(slot);
    }
  }

  // What the epilogue takes.
  float o[1][kOutTiles][4];
  TRENCADIS_DEVICE const RowState& state(int r) const {
    return softmax_.state[r];
  }

  TRENCADIS_DEVICE const ClearTiles& clear_tiles() const {
    return clear_;
  }
  TRENCADIS_DEVICE bool has_part() const {
    return ptx::warp_index() < Shape::kKvWarps;
  }
  TRENCADIS_DEVICE int warp_key() const {
    return ptx::warp_index() * Shape::kWarpKeys;
  }
  TRENCADIS_DEVICE int thread_row(int r) const {
    return r * 8 + ptx::lane_index() / 4;
  }
  TRENCADIS_DEVICE int state_row(int r) const {
    return ptx::warp_index() * Shape::kRows + thread_row(r);
  }

 private:
  ClearTiles clear_;
  SoftmaxRows<1> softmax_;
};

}  // namespace trencadis::collective
