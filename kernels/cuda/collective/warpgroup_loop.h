// Attention of a work item of many rows in a CTA with roles: each warpgroup of the consumers has 64
// rows of the tile. The scores of the next tile and the sum over this one are under way together
// while the softmax of the next waits only for the first; and the warpgroups take turns at the
// tensor cores, so that one's softmax runs beside the other's products.
#pragma once

#include "cuda/collective/launch.h"
#include "cuda/collective/logits.h"
#include "cuda/collective/ring_consumer.h"
#include "cuda/collective/ring_layout.h"
#include "cuda/collective/softmax.h"
#include "cuda/collective/warp_products.h"
#include "cuda/ptx/thread.h"
#include "cuda/ptx/warpgroup.h"

namespace trencadis::collective {

template <class Config, class Tile>
class WarpgroupLoop : public RingItem<Config> {
 public:
  using Layout = RingLayout<Config>;
  using Tag = typename Config::Element;
  using QueryTile = typename Layout::QueryTile;
  using KeyTile = typename Layout::KeyTile;
  using ValueTile = typename Layout::ValueTile;
  static constexpr int kGroupRows = 64;
  static constexpr int kGroups = Config::kWarps / 4;
  static_assert(Tile::kRows == kGroups * kGroupRows && kGroups == 2);
  static constexpr int kKeyTiles = Layout::kTokens / 8;
  static constexpr int kOutTiles = Layout::kDimVo / 8;
  static constexpr int kThreadRows = 2;

  TRENCADIS_DEVICE WarpgroupLoop(const Launch<Config>& launch, int buffer)
      : RingItem<Config>(launch, buffer),
        clear_(this->clear_for(group() * kGroupRows, group() * kGroupRows + kGroupRows - 1)),
        in_order_(this->source().in_order()),
        turns_(this->block().rows > kGroupRows) {}

  TRENCADIS_DEVICE void run(RingReader<Config>& ring) {
    RingSource<Config> source = this->source();
    const int tiles = source.tiles();
    if (!has_rows(this->work())) {
#pragma unroll 1
      for (int i = 0; i < 2 * tiles; ++i) ring.release(ring.take());
      return;
    }
    clear_sums(o);
    float s[1][kKeyTiles][4];
    float rescale[kThreadRows];
    source.slot = take(ring);
    await_turn();
    score(ring, source.slot, s);
    pass_turn();
    ptx::wait_products<0>();
    ptx::accept(s[0]);
    soften(source, 0, s, rescale);
    ring.release(source.slot);
    pack(s);
#pragma unroll 1
    for (int t = 1; t < tiles; ++t) {
      source.slot = take(ring);
      await_turn();
      score(ring, source.slot, s);
      const int slot = take(ring);
      add_values(ring, slot);
      pass_turn();
      ptx::wait_products<1>();
      ptx::accept(s[0]);
      if (in_order_) ring.release(source.slot);
      const bool moved = soften(source, t, s, rescale);
      if (!in_order_) ring.release(source.slot);
      ptx::accept(s[0]);
      ptx::wait_products<0>();
      ptx::accept(o[0]);
      ring.release(slot);
      if (moved) scale_rows(o, rescale);
      pack(s);
    }
    const int slot = take(ring);
    add_values(ring, slot);
    ptx::wait_products<0>();
    ptx::accept(o[0]);
    ring.release(slot);
  }

  // What the epilogue takes.
  float o[1][kOutTiles][4];
  TRENCADIS_DEVICE const RowState& state(int r) const {
    return softmax_.state[r];
  }

  /// Of the calling thread's warpgroup.
  TRENCADIS_DEVICE static bool has_rows(const RingWork& work) {
    return group() * kGroupRows < work.block.rows;
  }
  TRENCADIS_DEVICE const ClearTiles& clear_tiles() const {
    return clear_;
  }
  TRENCADIS_DEVICE static int warp_key() {
    return 0;
  }
  TRENCADIS_DEVICE static int thread_row(int r) {
    return ptx::warp_index() * 16 + r * 8 + ptx::lane_index() / 4;
  }

 private:
  TRENCADIS_DEVICE static int group() {
    return ptx::warp_index() / 4;
  }

  /// The next slot, for products to read.
  TRENCADIS_DEVICE static int take(RingReader<Config>& ring) {
    const int slot = ring.take();
    ptx::show_to_products();
    return slot;
  }

  /// The turns go on from item to item; with one warpgroup's rows alone there are none.
  TRENCADIS_DEVICE void await_turn() const {
    if (turns_) ptx::sync_threads_named(kTurns + group(), Layout::kThreads);
  }
  TRENCADIS_DEVICE void pass_turn() const {
    if (turns_) ptx::arrive_threads_named(kTurns + (group() ^ 1), Layout::kThreads);
  }

  /// Starts s = q k^T.
  TRENCADIS_DEVICE void score(const RingReader<Config>& ring, int slot,
                              float (&s)[1][kKeyTiles][4]) const {
    const ptx::SharedMatrix rows =
        QueryTile::rows(this->queries() + group() * (kGroupRows / 8) * QueryTile::kGroupBytes);
    const ptx::SharedMatrix keys = KeyTile::rows(ring.tile(slot));
    ptx::begin_products();
#pragma unroll
    for (int step = 0; step < Layout::kDimQk / 16; ++step)
      ptx::multiply_rows<Tag>(s[0], rows + QueryTile::row_step(step),
                              keys + KeyTile::row_step(step), step > 0);
    ptx::commit_products();
  }

  /// Scores become weights. Whether outputs are to be rescaled.
  TRENCADIS_DEVICE bool soften(const RingSource<Config>& source, int tile,
                               float (&s)[1][kKeyTiles][4], float (&rescale)[kThreadRows]) {
    finish_logits<Config>(*this, source, tile, s);
    if constexpr (!Config::kUseSoftmax) return false;
    const bool moved = raise_bases(s, softmax_, this->factor(), rescale);
    weigh(s, softmax_, this->factor());
    return moved;
  }

  TRENCADIS_DEVICE void pack(const float (&s)[1][kKeyTiles][4]) {
#pragma unroll
    for (int step = 0; step < kKeyTiles / 2; ++step)
      pack_weights<Tag>(weights_[step], s[0][2 * step], s[0][2 * step + 1]);
  }

  /// Starts o += weights v.
  TRENCADIS_DEVICE void add_values(const RingReader<Config>& ring, int slot) {
    const ptx::SharedMatrix values = ValueTile::rows(ring.tile(slot));
    ptx::begin_products();
#pragma unroll
    for (int step = 0; step < kKeyTiles / 2; ++step)
      add_step<0>(o[0], weights_[step], values, step);
    ptx::commit_products();
  }
  /// Columns from the slab kSlab on: two slabs at a time, or the last one.
  template <int kSlab>
  TRENCADIS_DEVICE static void add_step(float (&sums)[kOutTiles][4], const unsigned (&weights)[4],
                                        ptx::SharedMatrix values, int step) {
    constexpr int kSlabs = min_of(2, ValueTile::kSlabs - kSlab);
    ptx::multiply_columns<Tag, 8 * kSlabs, 8 * kSlab>(sums, weights,
                                                      values + ValueTile::column_step(step, kSlab));
    if constexpr (kSlab + kSlabs < ValueTile::kSlabs)
      add_step<kSlab + kSlabs>(sums, weights, values, step);
  }

  unsigned weights_[kKeyTiles / 2][4];
  ClearTiles clear_;
  SoftmaxRows<1> softmax_;
  bool in_order_;
  bool turns_;  // both warpgroups have rows
};

}  // namespace trencadis::collective
