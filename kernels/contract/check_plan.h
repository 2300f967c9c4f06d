// Arguments of the kernel that checks a plan's image where it lies, and what it finds: the debug
// mode of the CUDA backend, docs/decisions/0013.
#pragma once

#include <cstdint>

#include "contract/plan.h"
#include "contract/plan_image.h"

namespace trencadis::contract {

/// Parts of an image in the order in which they are checked; `page` is what the pages and positions
/// of an item lead to.
enum class PlanPart : std::int32_t {
  header,
  segment,
  item,
  queue,
  slot,
  arrival,
  empty_block,
  page,
  position,
};

/// A value that is not what its readers take for granted.
struct PlanFault {
  std::int64_t order;  // of two, the fault with the smaller is reported; kNone: there is none
  PlanPart part;
  std::int32_t index;   // of the queue, segment, item, ...; of the item where a page is wrong
  std::int32_t field;   // bytes from the beginning of the part; of a page, its entry in the table
  std::int32_t column;  // page of the item's block row; 0 elsewhere
  std::int64_t value;
  std::int64_t lowest, highest;  // expected, both included

  static constexpr std::int64_t kNone = 0x7fffffffffffffff;
};
static_assert(sizeof(PlanFault) == 48);

/// `expected` is the header as it was submitted. Nothing of the image is read beyond the sections
/// that it tells, whatever the image holds.
struct CheckPlanParams {
  const PlanImage* plan;  // on the device
  PlanFault* faults;      // [warps of the grid], each written by its warp
  PlanImage expected;
  std::int64_t pool_tokens;  // that k and v both hold
  std::int64_t page_size;    // P
  std::int32_t num_ids;      // page ids, and positions where there are any
  std::int32_t num_merges;
  std::int32_t num_requests;
  std::int32_t num_qo_tokens;  // nnz_q
  std::int32_t num_kv_heads;
  std::int32_t group;  // g
  std::int32_t num_tile_classes;
  std::int32_t unused;
  TileClass tile_classes[kMaxTileClasses];
};
static_assert(sizeof(CheckPlanParams) == 16 + 80 + 16 + 32 + 8 * kMaxTileClasses);

}  // namespace trencadis::contract
