// Rows of a tensor dealt to the whole launch: a grid of any size walks them in steps of itself, so
// that its size does not depend on how many there are.
#pragma once

#include "contract/units.h"
#include "cuda/ptx/thread.h"

namespace trencadis::collective {

/// The lanes that share a row: a power of two of them, as many as have work, at most a warp.
struct LaneGroup {
  int width;
  int lane;   // in the group
  int index;  // of the group in its warp

  TRENCADIS_DEVICE static LaneGroup of(int useful_lanes) {
    int width = 1;
    while (width < useful_lanes && width < 32) width *= 2;
    return {width, ptx::lane_index() % width, ptx::lane_index() / width};
  }
};

/// Rows (outer, inner) in order of outer, inner < `inner_count`. One division a launch: the steps
/// add and carry. A warp's lanes agree on the end, so that the loop body may meet.
class RowWalk {
 public:
  TRENCADIS_DEVICE RowWalk(int inner_count, const LaneGroup& group)
      : inner_count_(inner_count), group_(group.index) {
    const int groups = 32 / group.width;
    const int warps = ptx::cta_threads() / 32;
    const long long warp = static_cast<long long>(ptx::cta_index()) * warps +
                           static_cast<long long>(ptx::warp_index());
    const long long all = static_cast<long long>(ptx::num_ctas()) * warps;
    outer_ = warp * groups / inner_count;
    inner_ = static_cast<int>(warp * groups % inner_count);
    step_outer_ = all * groups / inner_count;
    step_inner_ = static_cast<int>(all * groups % inner_count);
  }

  /// True while some group of the warp has a row.
  TRENCADIS_DEVICE bool in(long long outer_count) const { return outer_ < outer_count; }
  TRENCADIS_DEVICE void next() {
    outer_ += step_outer_;
    inner_ += step_inner_;
    if (inner_ >= inner_count_) {
      inner_ -= inner_count_;
      ++outer_;
    }
  }

  /// The row of the calling lane's group; it may lie beyond the last.
  TRENCADIS_DEVICE long long outer() const { return outer_ + (inner_ + group_) / inner_count_; }
  TRENCADIS_DEVICE int inner() const { return (inner_ + group_) % inner_count_; }

 private:
  int inner_count_;
  int group_;
  long long outer_;
  int inner_;
  long long step_outer_;
  int step_inner_;
};

/// What a launch has to do: a count in device memory, never more than there is room for.
TRENCADIS_DEVICE long long count_of(const int* count, long long capacity) {
  if (count == nullptr) return capacity;
  return *count < capacity ? *count : capacity;
}

}  // namespace trencadis::collective
