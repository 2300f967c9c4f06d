// The contraction: partial states of a split row block become its final rows, in an order that the
// number of states alone decides, so that the bits do not depend on who finished first.
#pragma once

#include "contract/params.h"
#include "contract/plan_image.h"
#include "cuda/collective/block.h"
#include "cuda/collective/epilogue.h"
#include "cuda/collective/softmax.h"
#include "cuda/ptx/memory.h"
#include "cuda/ptx/thread.h"

namespace trencadis::collective {

/// kRows neighbouring rows by one warp. A lane sums a run of columns over its share of the states;
/// shares meet by shuffles.
template <class Config, int kRows>
class RowMerge {
 public:
  static constexpr int kRun = FinalRow<Config>::kRun;
  static constexpr int kRuns = Config::kHeadDimVo / kRun;  // of a row
  static constexpr int kRowLanes = kRuns > 16 ? 32 : kRuns > 8 ? 16 : kRuns > 4 ? 8 : 4;
  static constexpr int kShares = 32 / kRowLanes;
  static constexpr int kLaneRuns = (kRuns + kRowLanes - 1) / kRowLanes;
  /// States of a share that are read together.
  static constexpr int kInFlight = max_of(1, 8 / (kLaneRuns * kRows));

  TRENCADIS_DEVICE RowMerge(const contract::AttentionParams& params,
                            const contract::ImageSlot& slots, int slot_rows)
      : params_(params), slots_(slots), slot_rows_(slot_rows) {}

  /// Rows [first, first + kRows) of the block, those from `end` on read as the last.
  TRENCADIS_DEVICE void run(int first, int end) {
    for (int i = ptx::lane_index() / kRowLanes; i < slots_.slot_count; i += kInFlight * kShares) {
      Read read[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r) load(read[r], i, min_of(first + r, end - 1));
#pragma unroll
      for (int r = 0; r < kRows; ++r) add(row[r], read[r]);
    }
#pragma unroll
    for (int lanes = kRowLanes; lanes < 32; lanes *= 2)
#pragma unroll
      for (int r = 0; r < kRows; ++r) meet(row[r], lanes);
  }

  /// Whether the lane holds run `k` of a row, which begins at column(k).
  TRENCADIS_DEVICE static bool holds(int k) {
    return ptx::lane_index() < kRowLanes && run_index(k) < kRuns;
  }
  TRENCADIS_DEVICE static int column(int k) {
    return run_index(k) * kRun;
  }

  struct Row {
    float o[kLaneRuns][kRun] = {};
    RowTotal total{negative_infinity(), 0.0f};
  };
  Row row[kRows];

 private:
  struct Read {
    float lse[kInFlight];
    float o[kInFlight][kLaneRuns][kRun];
  };

  TRENCADIS_DEVICE static int run_index(int k) {
    return ptx::lane_index() % kRowLanes + k * kRowLanes;
  }

  /// States i, i + kShares, ..., kInFlight of them; those that are not there are empty.
  TRENCADIS_DEVICE void load(Read& read, int i, int r) const {
#pragma unroll
    for (int n = 0; n < kInFlight; ++n) {
      const bool valid = i + n * kShares < slots_.slot_count;
      const int slot = slots_.slot_begin + (valid ? i + n * kShares : i);
      const long long at = static_cast<long long>(slot) * slot_rows_ + r;
      const float lse = ptx::load_written(params_.partial_lse + at);
      read.lse[n] = valid ? lse : negative_infinity();
#pragma unroll
      for (int k = 0; k < kLaneRuns; ++k) {
        if (run_index(k) >= kRuns) continue;
        const float* const o = params_.partial_o + at * Config::kHeadDimVo + column(k);
        load_run<float>(reinterpret_cast<const char*>(o), read.o[n][k],
                        [](const char* from) { return ptx::load_written_16(from); });
      }
    }
  }

  TRENCADIS_DEVICE static void add(Row& to, const Read& read) {
    if constexpr (Config::kUseSoftmax) {
      float max = to.total.max;
#pragma unroll
      for (int n = 0; n < kInFlight; ++n) {
        max = fmaxf(max, read.lse[n]);
      }
      scale(to, weight(to.total.max, max));
      to.total.max = max;
    }
#pragma unroll
    for (int n = 0; n < kInFlight; ++n) {
      // Without a softmax states add, and their LSE is 0.
      const float w = weight(read.lse[n], Config::kUseSoftmax ? to.total.max : 0.0f);
      to.total.sum += w;
      // An empty state is ignored whatever its o holds.
      if (w == 0.0f) continue;
#pragma unroll
      for (int k = 0; k < kLaneRuns; ++k) {
        if (run_index(k) >= kRuns) continue;
#pragma unroll
        for (int c = 0; c < kRun; ++c) to.o[k][c] += w * read.o[n][k][c];
      }
    }
  }

  /// With the share of the lane whose number differs in the bit `lanes`.
  TRENCADIS_DEVICE static void meet(Row& to, int lanes) {
    if constexpr (Config::kUseSoftmax) {
      const float max = fmaxf(to.total.max, ptx::shuffle_xor(to.total.max, lanes));
      scale(to, weight(to.total.max, max));
      to.total.max = max;
    }
    to.total.sum += ptx::shuffle_xor(to.total.sum, lanes);
#pragma unroll
    for (int k = 0; k < kLaneRuns; ++k)
#pragma unroll
      for (int c = 0; c < kRun; ++c) to.o[k][c] += ptx::shuffle_xor(to.o[k][c], lanes);
  }

  TRENCADIS_DEVICE static void scale(Row& row, float factor) {
    row.total.sum *= factor;
#pragma unroll
    for (int k = 0; k < kLaneRuns; ++k)
#pragma unroll
      for (int c = 0; c < kRun; ++c) row.o[k][c] *= factor;
  }

  /// Of a state with natural LSE `lse`, relative to `max`.
  TRENCADIS_DEVICE static float weight(float lse, float max) {
    return lse == negative_infinity() ? 0.0f : ptx::exp2_approx((lse - max) * kLog2E);
  }

  const contract::AttentionParams& params_;
  const contract::ImageSlot slots_;
  int slot_rows_;
};

/// Rows of a block, kRows a warp at a time; without any state they are zeros.
template <class Config, int kRows>
TRENCADIS_DEVICE void merge_rows(const FinalRow<Config>& to, const Block& block,
                                 const contract::ImageSlot& slots, int slot_rows) {
  for (int first = ptx::warp_index() * kRows; first < block.rows; first += Config::kWarps * kRows) {
    using Merge = RowMerge<Config, kRows>;
    Merge merge(to.params, slots, slot_rows);
    merge.run(first, block.rows);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (first + r >= block.rows) break;
      const RowEntry row = block.row(first + r);
      auto& merged = merge.row[r];
      const float normaliser = to.normaliser(row, merged.total);
#pragma unroll
      for (int k = 0; k < Merge::kLaneRuns; ++k) {
        if (!Merge::holds(k)) continue;
#pragma unroll
        for (int c = 0; c < Merge::kRun; ++c) merged.o[k][c] *= normaliser;
        to.store(block, row, Merge::column(k), merged.o[k]);
      }
      if (ptx::lane_index() == 0) to.store_lse(block, row, merged.total);
    }
  }
}

/// For the whole CTA.
template <class Config>
TRENCADIS_DEVICE void merge_block(const FinalRow<Config>& to, const Block& block,
                                  const contract::ImageSlot& slots, int slot_rows) {
  // Few states leave room in the registers for more rows.
  constexpr int kMore = 4;
  if (slots.slot_count <= RowMerge<Config, kMore>::kInFlight * RowMerge<Config, kMore>::kShares)
    merge_rows<Config, kMore>(to, block, slots, slot_rows);
  else
    merge_rows<Config, 1>(to, block, slots, slot_rows);
}

}  // namespace trencadis::collective
