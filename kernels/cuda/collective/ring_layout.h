// Shared memory of a kernel whose CTA has roles (ring_queues.h): a producer warpgroup copies keys,
// values and queries, the warps of the consumers multiply. All tile classes of a launch share one
// ring of slots, so that the producer runs ahead from item to item; each slot takes T_kv tokens of
// keys or of values.
#pragma once

#include "contract/units.h"
#include "cuda/collective/block.h"
#include "cuda/collective/element_run.h"
#include "cuda/collective/epilogue.h"
#include "cuda/collective/shape.h"
#include "cuda/ptx/mbarrier.h"
#include "cuda/ptx/memory.h"
#include "cuda/ptx/thread.h"
#include "cuda/tile/slab_tile.h"

namespace trencadis::collective {

/// One item as the producer tells the consumers of it.
struct RingWork {
  Block block;
  int tile_class;  // kNoMore: the queues are empty
  int kv_begin, kv_end;
  Destination to;
  int is_last;                           // of its merge, to arrive
  alignas(16) contract::ImageSlot slot;  // where partial states are written

  static constexpr int kNoMore = -1;
};

/// Strides of rows as the producer takes them: in units that divide them, so that 32 bits of units
/// reach far. A unit is a power of two, in elements.
struct alignas(16) RingStrides {
  int key_page, key_token, value_page, value_token;
  int key_unit, value_unit;
  int query_token, query_head;
  int query_unit;
  int queries_aligned;  // their rows begin at multiples of 16 bytes

  /// The exponent of the unit of two strides.
  TRENCADIS_DEVICE static int common_shift(long long a, long long b) {
    return ptx::trailing_zeros(static_cast<unsigned>(a | b | contract::kLargestRowUnit));
  }
  template <class Tag>
  TRENCADIS_DEVICE static RingStrides of(const contract::AttentionParams& params) {
    const int key = common_shift(params.k_stride_page, params.k_stride_token);
    const int value = common_shift(params.v_stride_page, params.v_stride_token);
    const int query = common_shift(params.q_stride_token, params.q_stride_head);
    return {static_cast<int>(params.k_stride_page >> key),
            static_cast<int>(params.k_stride_token >> key),
            static_cast<int>(params.v_stride_page >> value),
            static_cast<int>(params.v_stride_token >> value),
            1 << key,
            1 << value,
            static_cast<int>(params.q_stride_token >> query),
            static_cast<int>(params.q_stride_head >> query),
            1 << query,
            rows_aligned<Tag>(params.q, params.q_stride_token, params.q_stride_head)};
  }
};

/// Where a warp of the producer is in the plan: in shared memory, for its registers are few.
struct alignas(16) RingCursor {
  const contract::ImageItem* item;
  const contract::WorkSegment* segment;
  int queue;
  int next_segment;  // of the queue
  int index;         // of the item, in the segment
};

template <class Tiles>
struct RingTiles;
template <class First, class... Rest>
struct RingTiles<TileClasses<First, Rest...>> {
  static constexpr int kTokens = First::kTokens;
  static constexpr int kStages = First::kStages;
  static_assert(((Rest::kTokens == kTokens && Rest::kStages == kStages) && ...),
                "the classes of a launch share the ring");
  TRENCADIS_FN static constexpr int rows() {
    int most = First::kRows;
    ((most = max_of(most, Rest::kRows)), ...);
    return most;
  }
};

template <class Config>
struct RingLayout {
  using Tiles = RingTiles<typename Config::TileClasses>;
  static constexpr int kTokens = Tiles::kTokens;
  static constexpr int kSlots = Tiles::kStages;
  static constexpr int kRows = Tiles::rows();           // of the largest class
  static constexpr int kThreads = Config::kWarps * 32;  // consumers; the producer comes behind them
  static constexpr int kProducerThreads = 128;
  static constexpr int kProducerWarps = kProducerThreads / 32;
  /// Of a thread: what a CTA of three warpgroups has, dealt to whom needs them.
  static constexpr int kProducerRegisters = 56;
  static constexpr int kConsumerRegisters = 224;

  static constexpr int kDimQk = Config::kHeadDimQk;
  static constexpr int kDimVo = Config::kHeadDimVo;
  using QueryTile = tile::SlabTile<kDimQk>;
  using KeyTile = tile::SlabTile<kDimQk>;
  using ValueTile = tile::SlabTile<kDimVo>;

  static constexpr int kSlotBytes = max_of(KeyTile::bytes(kTokens), ValueTile::bytes(kTokens));
  static constexpr int kQueryBytes = QueryTile::bytes(kRows);
  static constexpr int kQueries = Config::kQueryBuffers;

  // In bytes from the start of shared memory; tiles first, for their alignment.
  static constexpr int kQuery = 0;
  static constexpr int kRing = kQuery + kQueries * kQueryBytes;
  static constexpr int kLaunch = kRing + kSlots * kSlotBytes;
  static constexpr int kStrides = kLaunch + kLaunchBytes;
  static constexpr int kCursors = kStrides + int(sizeof(RingStrides));
  static constexpr int kWork = kCursors + kProducerWarps * int(sizeof(RingCursor));
  static constexpr int kBarriers = kWork + kQueries * int(sizeof(RingWork));
  static constexpr int kNumBarriers = 2 * (kSlots + kQueries);
  static constexpr int kRowTable = round_up(kBarriers + kNumBarriers * 8, 128);
  static constexpr int kOffsetTable = kRowTable + kQueries * kRows * int(sizeof(RowEntry));
  /// Of a tile's tokens where keys and where values lie, of the last tile and of this one.
  static constexpr int kOffsetTableBytes = 2 * 2 * 128 * int(sizeof(int));
  static constexpr int kPositionTable = kOffsetTable + kOffsetTableBytes;
  static constexpr int kRowScratch = kPositionTable + kSlots * kTokens * int(sizeof(int));
  static constexpr int kRowScratchBytes = kDimQk * int(sizeof(float));  // a warp
  static constexpr int kStates = round_up(kRowScratch + Config::kWarps * kRowScratchBytes, 128);

  // Places that the two sides meet at.
  TRENCADIS_DEVICE static ptx::SharedAddress full(char* shared, int slot) {
    return barrier(shared, slot);
  }
  TRENCADIS_DEVICE static ptx::SharedAddress empty(char* shared, int slot) {
    return barrier(shared, kSlots + slot);
  }
  TRENCADIS_DEVICE static ptx::SharedAddress queries_full(char* shared, int buffer) {
    return barrier(shared, 2 * kSlots + buffer);
  }
  TRENCADIS_DEVICE static ptx::SharedAddress queries_empty(char* shared, int buffer) {
    return barrier(shared, 2 * kSlots + kQueries + buffer);
  }
  TRENCADIS_DEVICE static RingStrides& strides(char* shared) {
    return *reinterpret_cast<RingStrides*>(shared + kStrides);
  }
  TRENCADIS_DEVICE static RingCursor& cursor(char* shared, int warp) {
    return reinterpret_cast<RingCursor*>(shared + kCursors)[warp];
  }
  TRENCADIS_DEVICE static RingWork& work(char* shared, int buffer) {
    return reinterpret_cast<RingWork*>(shared + kWork)[buffer];
  }
  TRENCADIS_DEVICE static ptx::SharedAddress row_entry(char* shared, int buffer, int row) {
    return ptx::shared_place(shared) + (kRowTable + (buffer * kRows + row) * int(sizeof(RowEntry)));
  }
  TRENCADIS_DEVICE static ptx::SharedAddress position(char* shared, int slot, int token) {
    return ptx::shared_place(shared) +
           (kPositionTable + (slot * kTokens + token) * int(sizeof(int)));
  }

 private:
  TRENCADIS_DEVICE static ptx::SharedAddress barrier(char* shared, int index) {
    return ptx::shared_place(shared) + (kBarriers + index * 8);
  }
};

/// A place that goes around in a ring of kSize, and the parity of the phase that is next there.
template <int kSize>
struct RingPlace {
  int index = 0;
  unsigned parity = 0;

  TRENCADIS_DEVICE void next() {
    if (++index < kSize) return;
    index = 0;
    parity ^= 1;
  }
};

}  // namespace trencadis::collective
