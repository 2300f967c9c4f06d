// The schedule as host and device see it: plain arrays with named fields, the same for every
// backend. src/planner writes it, persistent kernels and the CPU executor read it.
//
// KV heads repeat the same lengths, so row blocks and items are planned once and shared by all
// heads; a segment names the head. A queue is what one CTA executes:
//
//   for segment in queue: for item in segment: attend(row_block[item], segment.kv_head, KV range)
//
// An item either writes the final output of its rows (slot == kWriteThrough) or a partial state
// (O, LSE) into slot `segment.slot_base + item.slot`. A merge group lists the slots of one split
// (row block, KV head): consecutive, in KV order. Row blocks that see no key, the last ones, have
// no item: for every KV head their rows are a merge of nothing, written beside the queues.
#pragma once

#include <cstdint>

#include "contract/units.h"

namespace trencadis::contract {

/// Rows of query tile and tokens of KV tile of one work class.
struct TileClass {
  std::int32_t q_rows;     // T_q, fused rows: 1, 16, 32, 64, 128
  std::int32_t kv_tokens;  // T_kv: 32, 64, 128
};
static_assert(sizeof(TileClass) == 8);

/// Query rows that are attended together. Row r of a request is token r / g, head-in-group r % g:
/// the heads of a group are fused into the query tile.
struct RowBlock {
  std::int32_t request;
  std::int32_t block_row;   // row of the BSR view
  std::int32_t first_row;   // fused row, from the request's first token
  std::uint16_t row_count;  // 1 .. T_q
  std::uint8_t tile_class;  // index into PlanView::tile_classes
  std::uint8_t view;        // BSR view that it reads
};
static_assert(sizeof(RowBlock) == 16);

struct WorkItem {
  std::int32_t row_block;
  std::int32_t kv_begin;  // storage tokens of the block row, half-open range
  std::int32_t kv_end;
  std::int32_t slot;  // relative to the segment's slot_base, or kWriteThrough
};
static_assert(sizeof(WorkItem) == 16);

/// Items [item_begin, item_end) for one KV head.
struct WorkSegment {
  std::int32_t kv_head;
  std::int32_t item_begin;
  std::int32_t item_end;
  std::int32_t slot_base;
};
static_assert(sizeof(WorkSegment) == 16);

/// Segments [segment_begin, segment_end) of one CTA.
struct WorkQueue {
  std::int32_t segment_begin;
  std::int32_t segment_end;
};
static_assert(sizeof(WorkQueue) == 8);

/// Partial states [slot_begin, slot_begin + slot_count), merged in this order.
struct MergeGroup {
  std::int32_t row_block;
  std::int32_t kv_head;
  std::int32_t slot_begin;
  std::int32_t slot_count;
};
static_assert(sizeof(MergeGroup) == 16);

inline constexpr int kMaxTileClasses = 8;

/// First bytes of a plan. Offsets are from the header, in bytes, 16-aligned.
struct PlanHeader {
  std::int32_t num_tile_classes;
  std::int32_t num_row_blocks;
  std::int32_t num_items;
  std::int32_t num_segments;
  std::int32_t num_queues;
  std::int32_t num_merges;
  std::int32_t num_slots;
  std::int32_t slot_rows;             // rows of one slot: the largest T_q of the classes that split
  std::int32_t num_empty_row_blocks;  // the last of the row blocks, which see no key
  std::int32_t unused[3];             // 0
  TileClass tile_classes[kMaxTileClasses];
  std::int64_t row_blocks_offset;
  std::int64_t items_offset;
  std::int64_t segments_offset;
  std::int64_t queues_offset;
  std::int64_t merges_offset;
  std::int64_t bytes;  // of the whole plan
};
static_assert(sizeof(PlanHeader) == 48 + 8 * kMaxTileClasses + 48);

/// Typed access to a plan's bytes.
struct PlanView {
  const PlanHeader* header;

  template <class T>
  TRENCADIS_FN const T* at(std::int64_t offset) const {
    return reinterpret_cast<const T*>(reinterpret_cast<const char*>(header) + offset);
  }
  TRENCADIS_FN const RowBlock* row_blocks() const {
    return at<RowBlock>(header->row_blocks_offset);
  }
  /// Row blocks that see a key: those of items.
  TRENCADIS_FN std::int32_t num_work_row_blocks() const {
    return header->num_row_blocks - header->num_empty_row_blocks;
  }
  TRENCADIS_FN const WorkItem* items() const { return at<WorkItem>(header->items_offset); }
  TRENCADIS_FN const WorkSegment* segments() const {
    return at<WorkSegment>(header->segments_offset);
  }
  TRENCADIS_FN const WorkQueue* queues() const { return at<WorkQueue>(header->queues_offset); }
  TRENCADIS_FN const MergeGroup* merges() const { return at<MergeGroup>(header->merges_offset); }
};

}  // namespace trencadis::contract
