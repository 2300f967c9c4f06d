// Coordinates of the rows that one work item attends.
#pragma once

#include "contract/params.h"
#include "contract/plan_image.h"
#include "cuda/collective/shape.h"
#include "cuda/ptx/thread.h"
#include "variant/hooks.h"

namespace trencadis::collective {

/// A row block for one KV head. Row r is fused row first_row + r of the request.
struct Block {
  int request;
  int first_row;
  int rows;
  int group;
  int kv_head;
  int qo_begin;  // qo_indptr[request]
  int qo_len;
  int kv_len;
  int first_page;  // of the block row, in the page table

  /// Position of a query token on the axis of the keys.
  TRENCADIS_FN int position(int qo_pos) const { return qo_pos + kv_len - qo_len; }

  TRENCADIS_FN RowEntry row(int r) const {
    const int fused = first_row + r;
    const int token = fused / group;
    return {token, kv_head * group + (fused - token * group)};
  }
  TRENCADIS_FN variant::RowCoord row_coord(const RowEntry& row) const {
    return {.request = request,
            .qo_token = qo_begin + row.qo_pos,
            .qo_pos = row.qo_pos,
            .qo_head = row.qo_head,
            .qo_len = qo_len,
            .kv_len = kv_len};
  }
  TRENCADIS_FN variant::KeyCoord key_coord(int kv_pos) const {
    return {.request = request, .kv_pos = kv_pos, .kv_head = kv_head, .kv_len = kv_len};
  }
  TRENCADIS_FN variant::LogitCoord logit_coord(const RowEntry& row, int kv_pos) const {
    return {.request = request,
            .qo_token = qo_begin + row.qo_pos,
            .qo_pos = row.qo_pos,
            .kv_pos = kv_pos,
            .qo_head = row.qo_head,
            .kv_head = kv_head,
            .qo_len = qo_len,
            .kv_len = kv_len};
  }
};

TRENCADIS_DEVICE Block make_block(const contract::AttentionParams& params,
                                  const contract::ImageBlock& rows, int kv_head) {
  return {.request = rows.request,
          .first_row = rows.first_row,
          .rows = rows.row_count,
          .group = params.num_qo_heads / params.num_kv_heads,
          .kv_head = kv_head,
          .qo_begin = rows.qo_begin,
          .qo_len = rows.qo_len,
          .kv_len = rows.kv_len,
          .first_page = rows.first_page};
}

/// Keys that a query token sees, both ends included.
struct Visible {
  int first, last;
  TRENCADIS_FN bool holds(int kv_pos) const { return kv_pos >= first && kv_pos <= last; }
};

/// The variant's bounds: contract::BoundsParams, in 32 bits. Positions are below 2^31, so a bound
/// of kFar is none.
struct Bounds {
  static constexpr int kFar = 0x7fffffff;
  int left, right;

  TRENCADIS_FN static int of(long long bound) {
    return bound < 0 || bound > kFar ? kFar : static_cast<int>(bound);
  }
  TRENCADIS_FN bool any() const { return left != kFar || right != kFar; }

  TRENCADIS_FN Visible visible(int position) const {
    const long long last = static_cast<long long>(position) + right;
    return {left == kFar ? -kFar : clamped(static_cast<long long>(position) - left),
            right == kFar ? kFar : clamped(last)};
  }
  /// Keys that tokens at positions [from, to] see all of them.
  TRENCADIS_FN Visible visible_to_all(int from, int to) const {
    return {visible(to).first, visible(from).last};
  }

 private:
  TRENCADIS_FN static int clamped(long long key) {
    return static_cast<int>(key < -kFar ? -kFar : key > kFar ? kFar : key);
  }
};

}  // namespace trencadis::collective
