// A plan as a device reads it: one block of memory that needs nothing but itself, so that one copy
// brings a step and kernel arguments never change.
//
// The plan of plan.h says each thing once; a device pays a trip to memory for every reference that
// it follows before it can ask for its first key. Here a queue holds its first item, an item all of
// its rows' coordinates and the place of its first page: a CTA goes queue, page ids, keys.
#pragma once

#include <cstdint>

#include "contract/plan.h"
#include "contract/units.h"

namespace trencadis::contract {

/// A row block with what its request's arrays say of it.
struct alignas(16) ImageBlock {
  std::int32_t request;
  std::int32_t first_row;  // fused row, from the request's first token
  std::int32_t qo_begin;   // qo_indptr[request]
  std::int32_t qo_len;
  std::int32_t kv_len;      // logical
  std::int32_t first_page;  // of the block row, in PlanImage::pages()
  std::uint16_t row_count;
  std::uint8_t tile_class;
  std::uint8_t view;
  std::int32_t unused;  // 0
};
static_assert(sizeof(ImageBlock) == 32);

struct ImageItem {
  ImageBlock block;
  std::int32_t kv_begin;  // storage tokens of the block row, half-open range
  std::int32_t kv_end;
  std::int32_t slot;    // relative to the segment's slot_base, or kWriteThrough
  std::int32_t unused;  // 0
};
static_assert(sizeof(ImageItem) == 48);

/// What the item that writes a slot has to know of its merge: partial states
/// [slot_begin, slot_begin + slot_count) become rows, in this order, by whoever writes the last.
struct alignas(16) ImageSlot {
  std::int32_t merge;  // in PlanImage::arrivals()
  std::int32_t slot_begin;
  std::int32_t slot_count;
  std::int32_t unused;  // 0
};
static_assert(sizeof(ImageSlot) == 16);

/// The work of one CTA: first_item, the rest of first_segment, then the segments
/// [segment_begin, segment_end).
struct ImageQueue {
  WorkSegment first_segment;
  ImageItem first_item;
  std::int32_t segment_begin;
  std::int32_t segment_end;
  std::int32_t unused[2];  // 0
};
static_assert(sizeof(ImageQueue) == 80);

/// First bytes of the block, the queues behind them. Offsets are from here, in bytes, 16-aligned.
struct PlanImage {
  std::int32_t num_queues;  // those that have work
  std::int32_t unused;      // 0
  std::int32_t num_empty;   // row blocks that see no key
  std::int32_t slot_rows;   // rows of one slot: the largest T_q of the classes that split
  std::int64_t segments_offset;
  std::int64_t items_offset;
  std::int64_t slots_offset;
  std::int64_t arrivals_offset;
  std::int64_t empty_offset;
  std::int64_t pages_offset;      // 0: contiguous, page j of a block row is first_page + j
  std::int64_t positions_offset;  // 0: page j of a block row is its logical block column j
  std::int64_t bytes;             // of the whole image

  template <class T>
  TRENCADIS_FN const T* at(std::int64_t offset) const {
    return reinterpret_cast<const T*>(reinterpret_cast<const char*>(this) + offset);
  }
  TRENCADIS_FN const ImageQueue* queues() const { return at<ImageQueue>(sizeof(PlanImage)); }
  TRENCADIS_FN const WorkSegment* segments() const { return at<WorkSegment>(segments_offset); }
  TRENCADIS_FN const ImageItem* items() const { return at<ImageItem>(items_offset); }
  TRENCADIS_FN const ImageSlot* slots() const { return at<ImageSlot>(slots_offset); }
  /// Of each merge the partial states that are written. 0 before a run, and after it.
  TRENCADIS_FN const std::int32_t* arrivals() const { return at<std::int32_t>(arrivals_offset); }
  TRENCADIS_FN const ImageBlock* empty() const { return at<ImageBlock>(empty_offset); }
  /// Page ids of the block rows, and their logical block columns; null where there are none.
  TRENCADIS_FN const std::int32_t* pages() const { return ids(pages_offset); }
  TRENCADIS_FN const std::int32_t* positions() const { return ids(positions_offset); }

 private:
  TRENCADIS_FN const std::int32_t* ids(std::int64_t offset) const {
    return offset == 0 ? nullptr : at<std::int32_t>(offset);
  }
};
static_assert(sizeof(PlanImage) == 80);

}  // namespace trencadis::contract
