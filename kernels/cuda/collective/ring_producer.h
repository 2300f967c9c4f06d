// The producer of a CTA with roles: it walks the CTA's items and brings queries, keys and values of
// one after another into shared memory, as far ahead as there is room. Paged, gathered and
// contiguous tokens are one to it: a lane looks up one token of a tile, a tile ahead, and tells its
// warp where the row lies as a 32-bit distance; eight lanes then copy a row with one multiplication
// for its address. Whatever instructions the producer issues, the consumers' softmax waits for, so
// each row costs only that and its copies.
#pragma once

#include "contract/params.h"
#include "contract/plan_image.h"
#include "cuda/collective/block.h"
#include "cuda/collective/element_run.h"
#include "cuda/collective/launch.h"
#include "cuda/collective/ring_layout.h"
#include "cuda/ptx/cp_async.h"
#include "cuda/ptx/mbarrier.h"
#include "cuda/ptx/memory.h"
#include "cuda/ptx/sync.h"
#include "cuda/ptx/thread.h"
#include "cuda/ptx/warpgroup.h"

namespace trencadis::collective {

template <class Config>
class RingProducer {
 public:
  using Layout = RingLayout<Config>;
  using Tag = typename Config::Element;

  TRENCADIS_DEVICE RingProducer(const Launch<Config>& launch, const contract::PlanImage& plan)
      : params_(launch.params),
        plan_(plan),
        shared_(launch.shared),
        thread_(ptx::opaque(ptx::thread_index() - Layout::kThreads)) {}

  TRENCADIS_DEVICE void run() {
    bool more = start_queue(ptx::cta_index());
    if (more) look_ahead();
    // Tensors may come from the kernel before; plans do not.
    ptx::wait_for_dependencies();
    if (!more) bring_queries(false);
    bool first = true;
#pragma unroll 1
    while (more) {
      more = bring_tiles(first);
      first = false;
    }
  }

 private:
  static constexpr int kLanes = 8;                                   // that share a row
  static constexpr int kGroups = Layout::kProducerThreads / kLanes;  // of lanes
  static constexpr int kWarpGroups = kGroups / Layout::kProducerWarps;
  static constexpr int kTileRows = Layout::kTokens / kGroups;  // of a group of lanes
  static constexpr int kQueryRows = 8;
  static_assert(Layout::kRows <= kGroups * kQueryRows);

  // --- who copies what ---------------------------------------------------------------------------

  TRENCADIS_DEVICE int warp() const {
    return thread_ >> 5;
  }
  TRENCADIS_DEVICE int lane() const {
    return thread_ & 31;
  }
  TRENCADIS_DEVICE int group() const {
    return thread_ / kLanes;
  }
  /// The lane's 16 bytes of each slab of a row.
  TRENCADIS_DEVICE int chunk() const {
    return thread_ % kLanes;
  }

  TRENCADIS_DEVICE const RingStrides& strides() const {
    return Layout::strides(shared_);
  }

  /// Tables of distances of a warp's rows, kRows of each of its groups.
  TRENCADIS_DEVICE ptx::SharedAddress table(int index) const {
    return ptx::shared_place(shared_) +
           (Layout::kOffsetTable + (index * 128 + warp() * 32) * int(sizeof(int)));
  }

  // --- the items, one after another --------------------------------------------------------------

  TRENCADIS_DEVICE RingCursor& cursor() const {
    return Layout::cursor(shared_, warp());
  }

  /// Turns to the first item of the queue, or of one that follows. Whether there is one.
  TRENCADIS_DEVICE bool start_queue(int index) const {
    if (index >= plan_.num_queues) return false;
    const contract::ImageQueue& queue = plan_.queues()[index];
    const int next_segment = queue.segment_begin;
    const int item = queue.first_segment.item_begin;
    ptx::sync_warp();
    if (lane() == 0) {
      RingCursor& at = cursor();
      at.segment = &queue.first_segment;
      at.item = &queue.first_item;
      at.queue = index;
      at.next_segment = next_segment;
      at.index = item;
    }
    ptx::sync_warp();
    return true;
  }
  TRENCADIS_DEVICE bool next_item() const {
    const contract::WorkSegment* segment = cursor().segment;
    const int queue = cursor().queue;
    int next_segment = cursor().next_segment;
    int index = cursor().index + 1;
    if (index == segment->item_end) {
      if (next_segment == plan_.queues()[queue].segment_end)
        return start_queue(queue + ptx::num_ctas());
      segment = plan_.segments() + next_segment++;
      index = segment->item_begin;
    }
    ptx::sync_warp();
    if (lane() == 0) {
      RingCursor& at = cursor();
      at.segment = segment;
      at.item = plan_.items() + index;
      at.next_segment = next_segment;
      at.index = index;
    }
    ptx::sync_warp();
    return true;
  }

  /// The tiles of the cursor's item are the next to be brought; asks for the pages of the first.
  TRENCADIS_DEVICE void look_ahead() {
    const contract::ImageItem& item = *cursor().item;
    begin_ = item.kv_begin;
    end_ = item.kv_end;
    first_page_ = item.block.first_page;
    look_up(0);
  }

  /// The tiles of an item, and the queries of the next before the last values. Whether there is a
  /// next, which the cursor then is at.
  TRENCADIS_DEVICE bool bring_tiles(bool first) {
    const int tiles = (end_ - begin_ + Layout::kTokens - 1) / Layout::kTokens;
    // Consumers of large tiles ask for the next keys before the values of the last.
    const int lag = values_lag<0>(typename Config::TileClasses{}, cursor().item->block.tile_class);
    const int kv_head = cursor().segment->kv_head;
    const char* const keys = element_at<Tag>(
        params_.k, kv_head * params_.k_stride_head + chunk() * (tile::kChunkBytes / 2));
    const char* const values = element_at<Tag>(
        params_.v, kv_head * params_.v_stride_head + chunk() * (tile::kChunkBytes / 2));
    bool more = false;
#pragma unroll 1
    for (int t = 0; t < tiles + lag; ++t) {
      if (t < tiles) {
        const int position = publish(t);
        if (t + 1 < tiles) look_up(t + 1);
        acquire();
        place_position(position);
        copy_tile<typename Layout::KeyTile>(keys, strides().key_unit, table(t % 2 * 2));
      }
      // Nobody has brought the first item's queries; its first keys, which take longest, are on
      // their way by now.
      if (first && t == 0) bring_queries(true);
      if (t + 1 == tiles) {
        more = next_item();
        if (more) look_ahead();
        if constexpr (Layout::kQueries > 1) bring_queries(more);
      }
      if (t >= lag) {
        acquire();
        copy_tile<typename Layout::ValueTile>(values, strides().value_unit,
                                              table((t - lag) % 2 * 2 + 1));
      }
    }
    if constexpr (Layout::kQueries == 1) bring_queries(more);
    return more;
  }

  template <int kIndex, class First, class... Rest>
  TRENCADIS_DEVICE static int rows_of_class(TileClasses<First, Rest...>, int tile_class) {
    if constexpr (sizeof...(Rest) > 0) {
      if (tile_class != kIndex)
        return rows_of_class<kIndex + 1>(TileClasses<Rest...>{}, tile_class);
    }
    return First::kRows;
  }
  template <int kIndex, class First, class... Rest>
  TRENCADIS_DEVICE static int values_lag(TileClasses<First, Rest...> classes, int tile_class) {
    return rows_of_class<kIndex>(classes, tile_class) >= 64 ? 1 : 0;
  }

  // --- queries -----------------------------------------------------------------------------------

  /// Of the item, or word that there is none. Rows beyond the block's are the last one again, so
  /// that hooks may be called with them.
  TRENCADIS_DEVICE void bring_queries(bool any) {
    ptx::wait_phase(Layout::queries_empty(shared_, query_.index), query_.parity ^ 1);
    if (thread_ == 0) tell(any);
    if (any) copy_queries();
    const ptx::SharedAddress full = Layout::queries_full(shared_, query_.index);
    ptx::sync_warp();
    ptx::arrive_with_copies(full);
    if (lane() == 0) ptx::arrive(full);
    query_.next();
  }

  TRENCADIS_DEVICE void tell(bool any) const {
    RingWork& work = Layout::work(shared_, query_.index);
    if (!any) {
      work.tile_class = RingWork::kNoMore;
      return;
    }
    work.block = make_block(params_, cursor().item->block, cursor().segment->kv_head);
    work.tile_class = cursor().item->block.tile_class;
    work.kv_begin = cursor().item->kv_begin;
    work.kv_end = cursor().item->kv_end;
    work.to = {contract::kWriteThrough, plan_.slot_rows};
    if (cursor().item->slot != contract::kWriteThrough) {
      work.to.slot = cursor().segment->slot_base + cursor().item->slot;
      ptx::copy_async_16(&work.slot, plan_.slots() + work.to.slot, true);
    }
  }

  TRENCADIS_DEVICE void copy_queries() const {
    const Block block = make_block(params_, cursor().item->block, cursor().segment->kv_head);
    const int rows =
        rows_of_class<0>(typename Config::TileClasses{}, cursor().item->block.tile_class);
    const int row = thread_;
    ptx::sync_warp();
    if (row < rows) {
      const RowEntry entry = block.row(min_of(row, block.rows - 1));
      ptx::store_shared(Layout::row_entry(shared_, query_.index, row), entry);
      ptx::store_shared(
          table(0) + lane() * int(sizeof(int)),
          entry.qo_pos * strides().query_token + entry.qo_head * strides().query_head);
    }
    ptx::sync_warp();
    if (group() * kQueryRows < rows) {
      const char* const from = element_at<Tag>(
          params_.q, block.qo_begin * params_.q_stride_token + chunk() * (tile::kChunkBytes / 2));
      const ptx::SharedAddress to =
          ptx::shared_place(shared_) + (Layout::kQuery + query_.index * Layout::kQueryBytes);
      copy_rows<typename Layout::QueryTile, kQueryRows>(from, strides().query_unit, table(0), to,
                                                        strides().queries_aligned != 0);
    }
  }

  // --- keys and values ---------------------------------------------------------------------------

  TRENCADIS_DEVICE const PageTable& page_table() const {
    return PageTable::of(shared_ + Layout::kLaunch);
  }

  /// The lane's token of a tile; beyond the last the last again, since a weight of 0 wants a number
  /// beside it.
  TRENCADIS_DEVICE int token_of(int tile) const {
    return min_of(begin_ + tile * Layout::kTokens + token_row(), end_ - 1);
  }

  /// Asks for its page. The answer is not looked at before publish(), so that nobody waits for
  /// memory in between.
  TRENCADIS_DEVICE void look_up(int tile) {
    const int column = params_.kv.page.divide(token_of(tile));
    const int entry = first_page_ + column;
    const PageTable& pages = page_table();
    page_ = pages.pages != nullptr ? pages.pages[entry] : entry;
    place_ = pages.positions != nullptr ? pages.positions[entry] : column;
  }

  /// Tells the warp where its rows of tile `tile` lie. Returns the token's position.
  TRENCADIS_DEVICE int publish(int tile) const {
    const contract::Divisor& size = params_.kv.page;
    const int token = token_of(tile);
    const int in_page = token - size.divide(token) * size.divisor;
    const RingStrides& by = strides();
    const int index = tile % 2 * 2;
    ptx::sync_warp();
    if (has_token()) {
      const int at = lane() * int(sizeof(int));
      ptx::store_shared(table(index) + at, page_ * by.key_page + in_page * by.key_token);
      ptx::store_shared(table(index + 1) + at, page_ * by.value_page + in_page * by.value_token);
    }
    ptx::sync_warp();
    return place_ * size.divisor + in_page;
  }
  TRENCADIS_DEVICE bool has_token() const {
    return lane() < kWarpGroups * kTileRows;
  }
  /// Of the calling thread, in a tile.
  TRENCADIS_DEVICE int token_row() const {
    return warp() * (kWarpGroups * kTileRows) + lane();
  }

  TRENCADIS_DEVICE void acquire() const {
    ptx::wait_phase(Layout::empty(shared_, slot_.index), slot_.parity ^ 1);
  }
  /// Where positions are not the order of the storage, consumers read them here.
  TRENCADIS_DEVICE void place_position(int position) const {
    if (page_table().positions == nullptr || !has_token()) return;
    ptx::store_shared(Layout::position(shared_, slot_.index, token_row()), position);
  }

  template <class Tile>
  TRENCADIS_DEVICE void copy_tile(const char* from, int unit, ptx::SharedAddress distances) {
    const ptx::SharedAddress to =
        ptx::shared_place(shared_) + (Layout::kRing + slot_.index * Layout::kSlotBytes);
    copy_rows<Tile, kTileRows>(from, unit, distances, to, page_table().aligned != 0);
    const ptx::SharedAddress full = Layout::full(shared_, slot_.index);
    ptx::arrive_with_copies(full);
    // Copies say nothing of what was stored.
    ptx::sync_warp();
    if (lane() == 0) ptx::arrive(full);
    slot_.next();
  }

  /// The group's kRows rows of a tile.
  template <class Tile, int kRows>
  TRENCADIS_DEVICE void copy_rows(const char* from, int unit, ptx::SharedAddress distances,
                                  ptx::SharedAddress to, bool aligned) const {
    static_assert(kRows % 4 == 0);
    const ptx::SharedAddress mine = distances + group() % kWarpGroups * kRows * int(sizeof(int));
    const ptx::SharedAddress first = to + Tile::offset(group() * kRows, chunk());
    const auto place_of = [&](int i) { return Tile::below(first, i); };
    if (aligned) {
      int distance[kRows];
#pragma unroll
      for (int i = 0; i < kRows; i += 4) {
        const ptx::Bytes16 four = ptx::load_shared_16(mine + i * int(sizeof(int)));
#pragma unroll
        for (int n = 0; n < 4; ++n) distance[i + n] = static_cast<int>(four.w[n]);
      }
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const char* const row = ptx::far_address(from, distance[i], unit * 2);
        const ptx::SharedAddress place = place_of(i);
#pragma unroll
        for (int slab = 0; slab < Tile::kSlabs; ++slab)
          ptx::copy_async_run_16(place + slab * Tile::kSlabBytes, row + slab * 128);
      }
    } else {
#pragma unroll 1
      for (int i = 0; i < kRows; ++i) {
        const int distance = ptx::load_shared<int>(mine + i * int(sizeof(int)));
        const char* const row = ptx::far_address(from, distance, unit * 2);
#pragma unroll 1
        for (int slab = 0; slab < Tile::kSlabs; ++slab)
          ptx::store_shared_16(place_of(i) + slab * Tile::kSlabBytes,
                               load_elements_16<Tag>(row + slab * 128));
      }
      ptx::show_to_products();
    }
  }

  const contract::AttentionParams& params_;
  const contract::PlanImage& plan_;
  char* shared_;
  const int thread_;  // of the producer
  RingPlace<Layout::kSlots> slot_;
  RingPlace<Layout::kQueries> query_;

  // Of the lane's token of the next tile: its page, and which of the block columns that is.
  int page_ = 0;
  int place_ = 0;
  // The item whose tiles are brought: storage tokens, and where its pages are in the table.
  int begin_ = 0;
  int end_ = 0;
  int first_page_ = 0;
};

}  // namespace trencadis::collective
