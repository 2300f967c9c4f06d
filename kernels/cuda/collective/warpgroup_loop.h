// Attention of a work item of many rows in a CTA with roles: each warpgroup of the consumers has 64
// rows of the tile. The scores of the next tile and the sum over this one are under way together
// while the softmax of the next waits only for the first, from item to item; and the warpgroups
// take turns at the tensor cores, so that one's softmax runs beside the other's products.
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

  using RingItem<Config>::RingItem;

  /// Attends the item in turn, and those that follow it as far as the warpgroup can go on without a
  /// pause: the first scores of one are under way beside the last values of the one before.
  /// `finish(rows)` takes the outcome of each.
  template <class Finish>
  TRENCADIS_DEVICE void run(RingItems<Config>& items, RingReader<Config>& ring, Finish finish) {
    float s[1][kKeyTiles][4];
    float rescale[kThreadRows];
    clear();
    look_at_item();
    const bool rows = has_rows(this->work());
    if (rows) {
      source_.slot = take(ring);
      await_turn();
      score(ring, source_.slot, s);
      pass_turn();
      ptx::wait_products<0>();
      ptx::accept(s[0]);
      soften(0, s, rescale);
      ring.release(source_.slot);
      pack(s);
    } else {
#pragma unroll 1
      for (int i = 0; i < 2 * tiles_; ++i) ring.release(ring.take());
    }
#pragma unroll 1
    for (int t = 1;; ++t) {
      const bool ends = !rows || t == tiles_;
      const bool goes_on = !ends || (rows && turn_to_next(items));
      RowState ended[kThreadRows];
      bool moved = false;
      // No product is under way where these meet: with one branch of a product in flight the
      // compiler waits for each.
      if (goes_on) {
        // The last values of an item come before the first keys of the next.
        int slot = 0;
        if (ends) slot = take(ring);
        source_.slot = take(ring);
        await_turn();
        score(ring, source_.slot, s);
        if (!ends) slot = take(ring);
        add_values(ring, slot);
        pass_turn();
        ptx::wait_products<1>();
        ptx::accept(s[0]);
        if (in_order_) ring.release(source_.slot);
        if (ends) {
#pragma unroll
          for (int r = 0; r < kThreadRows; ++r) {
            ended[r] = state[r];
            state[r] = RowState{};
          }
          t = 0;
        }
        moved = soften(t, s, rescale);
        if (!in_order_) ring.release(source_.slot);
        ptx::accept(s[0]);
        ptx::wait_products<0>();
        ptx::accept(o[0]);
        ring.release(slot);
        pack(s);
      } else {
        if (rows) {
          const int slot = take(ring);
          add_values(ring, slot);
          ptx::wait_products<0>();
          ptx::accept(o[0]);
          ring.release(slot);
        }
#pragma unroll
        for (int r = 0; r < kThreadRows; ++r) ended[r] = state[r];
      }
      if (ends) {
        finish(Rows{RingItem<Config>(this->launch(), items.buffer()), o, ended});
        items.finish();
        if (!goes_on) return;
        clear();
      } else if (moved) {
        scale_rows(o, rescale);
      }
    }
  }

  /// The rows of an item, whose state a thread holds part of, for the epilogue.
  struct Rows {
    static constexpr int kThreadRows = WarpgroupLoop::kThreadRows;
    const RingItem<Config> item;
    const float (&o)[1][kOutTiles][4];
    const RowState (&state)[kThreadRows];

    TRENCADIS_DEVICE const Launch<Config>& launch() const { return item.launch(); }
    TRENCADIS_DEVICE const Block& block() const { return item.block(); }
    TRENCADIS_DEVICE RowEntry row(int r) const { return item.row(r); }
    TRENCADIS_DEVICE float unit() const { return item.unit(); }
    TRENCADIS_DEVICE static int thread_row(int r) { return WarpgroupLoop::thread_row(r); }
    TRENCADIS_DEVICE static int thread_column(int j, int c) {
      return RingItem<Config>::thread_column(j, c);
    }
  };

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

  TRENCADIS_DEVICE void clear() {
#pragma unroll
    for (int j = 0; j < kOutTiles; ++j)
#pragma unroll
      for (int c = 0; c < 4; ++c) o[0][j][c] = 0.0f;
  }

  TRENCADIS_DEVICE void look_at_item() {
    source_ = this->source();
    tiles_ = source_.tiles();
    clear_ = this->clear_for(group() * kGroupRows, group() * kGroupRows + kGroupRows - 1);
    in_order_ = source_.in_order();
    turns_ = this->block().rows > kGroupRows;
  }

  /// Whether the next item is one for this loop, and then that is in turn.
  TRENCADIS_DEVICE bool turn_to_next(const RingItems<Config>& items) {
    if constexpr (Layout::kQueries > 1 &&
                  !variant::kHasHook<typename Config::Functor, variant::kQueryTransform>) {
      if (!kScalesLogits<Config> && this->launch().negate) return false;
      const RingWork& next = items.await_next();
      if (next.tile_class != this->work().tile_class || !has_rows(next)) return false;
      this->turn_to(items.next_buffer());
      look_at_item();
      return true;
    }
    return false;
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
  TRENCADIS_DEVICE bool soften(int tile, float (&s)[1][kKeyTiles][4],
                               float (&rescale)[kThreadRows]) {
    finish_logits<Config>(*this, source_, tile, s);
    if constexpr (!Config::kUseSoftmax) return false;
    const bool moved = raise_bases(s, state, this->factor(), rescale);
    weigh(s, state, this->factor());
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

  float o[1][kOutTiles][4];
  RowState state[kThreadRows];
  unsigned weights_[kKeyTiles / 2][4];
  RingSource<Config> source_{};
  int tiles_ = 0;
  ClearTiles clear_;
  bool in_order_ = true;
  bool turns_ = false;  // both warpgroups have rows
};

}  // namespace trencadis::collective
