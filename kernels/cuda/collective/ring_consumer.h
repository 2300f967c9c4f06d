// What the main loops of a CTA with roles have in common: where a consumer is in the ring, and where
// the tokens of a tile are.
#pragma once

#include "cuda/collective/block.h"
#include "cuda/collective/launch.h"
#include "cuda/collective/ring_layout.h"
#include "cuda/ptx/mbarrier.h"
#include "cuda/ptx/memory.h"
#include "cuda/ptx/thread.h"

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

/// Tokens [begin, end) of a block row, of which the keys of one tile are in the slot `slot`.
template <class Config>
struct RingSource {
  using Layout = RingLayout<Config>;
  static constexpr int kTokens = Layout::kTokens;

  char* shared;
  int begin, end;
  int slot = 0;

  TRENCADIS_DEVICE int tiles() const { return (end - begin + kTokens - 1) / kTokens; }
  TRENCADIS_DEVICE int tokens(int tile) const {
    return min_of(kTokens, end - begin - tile * kTokens);
  }
  TRENCADIS_DEVICE bool in_order() const {
    return PageTable::of(shared + Layout::kLaunch).positions == nullptr;
  }
  TRENCADIS_DEVICE int position(int tile, int token) const {
    if (in_order()) return min_of(begin + tile * kTokens + token, end - 1);
    return ptx::load_shared<int>(Layout::position(shared, slot, token));
  }
};

/// What hooks and epilogues ask of a loop about its item.
template <class Config>
class RingItem {
 public:
  using Layout = RingLayout<Config>;

  TRENCADIS_DEVICE RingItem(const Launch<Config>& launch, const RingWork& work, int buffer)
      : launch_(launch), work_(work), buffer_(buffer) {
    positions_ = row_positions(work.block, row(0), row(work.block.rows - 1));
  }

  TRENCADIS_DEVICE const Launch<Config>& launch() const { return launch_; }
  TRENCADIS_DEVICE const Block& block() const { return work_.block; }
  TRENCADIS_DEVICE const RowPositions& positions() const { return positions_; }
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
  TRENCADIS_DEVICE RingSource<Config> source() const {
    return {launch_.shared, work_.kv_begin, work_.kv_end};
  }

 private:
  const Launch<Config>& launch_;
  const RingWork& work_;
  int buffer_;
  RowPositions positions_;
};

}  // namespace trencadis::collective
