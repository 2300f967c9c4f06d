// What the main loops of a CTA with roles have in common: where a consumer is in the ring, and
// where the tokens of a tile are.
#pragma once

#include "cuda/collective/block.h"
#include "cuda/collective/launch.h"
#include "cuda/collective/logits.h"
#include "cuda/collective/ring_layout.h"
#include "cuda/ptx/mbarrier.h"
#include "cuda/ptx/memory.h"
#include "cuda/ptx/thread.h"
#include "cuda/ptx/warpgroup.h"

namespace trencadis::collective {

/// Barriers of the CTA by their numbers; 0 is everybody's.
enum RingBarrier { kConsumers = 1, kTurns };  // a turn's is of its warpgroup

template <class Config>
TRENCADIS_DEVICE void sync_consumers() {
  ptx::sync_threads_named(kConsumers, RingLayout<Config>::kThreads);
}

/// The next slot of the ring, as a warp of the consumers reads it.
template <class Config>
class RingReader {
 public:
  using Layout = RingLayout<Config>;

  TRENCADIS_DEVICE explicit RingReader(char* shared) : shared_(shared) {}

  /// Waits for the next slot and takes it: its index.
  TRENCADIS_DEVICE int take() {
    const int slot = place_.index;
    ptx::wait_phase(Layout::full(shared_, slot), place_.parity);
    place_.next();
    return slot;
  }
  /// The warp is done with the slot.
  TRENCADIS_DEVICE void release(int slot) const {
    ptx::sync_warp();
    if (ptx::lane_index() == 0) ptx::arrive(Layout::empty(shared_, slot));
  }
  TRENCADIS_DEVICE ptx::SharedAddress tile(int slot) const {
    return ptx::shared_place(shared_) + (Layout::kRing + slot * Layout::kSlotBytes);
  }

 private:
  char* shared_;
  RingPlace<Layout::kSlots> place_;
};

/// Tokens of the item in a buffer, of which the keys of one tile are in the slot `slot`. What it is
/// asked is read from shared memory: registers are dearer.
template <class Config>
struct RingSource {
  using Layout = RingLayout<Config>;
  static constexpr int kTokens = Layout::kTokens;

  char* shared;
  int buffer;
  int slot = 0;

  TRENCADIS_DEVICE int begin() const { return Layout::work(shared, buffer).kv_begin; }
  TRENCADIS_DEVICE int end() const { return Layout::work(shared, buffer).kv_end; }
  TRENCADIS_DEVICE int tiles() const { return (end() - begin() + kTokens - 1) / kTokens; }
  TRENCADIS_DEVICE int tokens(int tile) const {
    return min_of(kTokens, end() - begin() - tile * kTokens);
  }
  TRENCADIS_DEVICE bool in_order() const {
    return PageTable::of(shared + Layout::kLaunch).positions == nullptr;
  }
  TRENCADIS_DEVICE int position(int tile, int token) const {
    if (in_order()) return min_of(begin() + tile * kTokens + token, end() - 1);
    return ptx::load_shared<int>(Layout::position(shared, slot, token));
  }
};

/// The items of the CTA one after another, as a warp of the consumers meets them. The work of an
/// item stays readable until it is finished.
template <class Config>
class RingItems {
 public:
  using Layout = RingLayout<Config>;

  TRENCADIS_DEVICE explicit RingItems(char* shared) : shared_(shared) {}

  /// Waits for the item in turn; RingWork::kNoMore is its class where there is none.
  TRENCADIS_DEVICE RingWork& await() const {
    ptx::wait_phase(Layout::queries_full(shared_, place_.index), place_.parity);
    ptx::show_to_products();
    return Layout::work(shared_, place_.index);
  }
  TRENCADIS_DEVICE int buffer() const { return place_.index; }
  /// The warp is done with the item in turn.
  TRENCADIS_DEVICE void finish() {
    ptx::sync_warp();
    if (ptx::lane_index() == 0) ptx::arrive(Layout::queries_empty(shared_, place_.index));
    place_.next();
  }

 private:
  char* shared_;
  RingPlace<Layout::kQueries> place_;
};

/// An item, as hooks and epilogues ask for it.
template <class Config>
class RingItem {
 public:
  using Layout = RingLayout<Config>;

  TRENCADIS_DEVICE RingItem(const Launch<Config>& launch, int buffer)
      : launch_(launch), buffer_(buffer) {}

  TRENCADIS_DEVICE const Launch<Config>& launch() const { return launch_; }
  TRENCADIS_DEVICE RingWork& work() const { return Layout::work(launch_.shared, buffer_); }
  TRENCADIS_DEVICE const Block& block() const { return work().block; }
  TRENCADIS_DEVICE RowEntry row(int r) const {
    return ptx::load_shared<RowEntry>(Layout::row_entry(launch_.shared, buffer_, r));
  }
  TRENCADIS_DEVICE float unit() const { return logit_unit(launch_); }
  TRENCADIS_DEVICE float factor() const { return unit() * kLog2E; }
  /// Column of the j-th tile of 8 in which element c of an accumulator lies.
  TRENCADIS_DEVICE static int thread_column(int j, int c) {
    return j * 8 + ptx::lane_index() % 4 * 2 + c % 2;
  }

 protected:
  TRENCADIS_DEVICE ptx::SharedAddress queries() const {
    return ptx::shared_place(launch_.shared) + (Layout::kQuery + buffer_ * Layout::kQueryBytes);
  }
  TRENCADIS_DEVICE RingSource<Config> source() const { return {launch_.shared, buffer_}; }
  /// For rows [first, last], of which those beyond the block's are its last.
  TRENCADIS_DEVICE ClearTiles clear_for(int first, int last) const {
    const RingSource<Config> tokens = source();
    return clear_tiles<Layout::kTokens>(launch_, block(), row(first), row(last), tokens.in_order(),
                                        tokens.begin(), tokens.end());
  }

 private:
  const Launch<Config>& launch_;
  int buffer_;
};

}  // namespace trencadis::collective
