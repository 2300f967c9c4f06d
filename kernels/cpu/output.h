// The end of a work item: rows leave as final output or as a partial state, and partial states of a
// split row merge into the final output. Sinks and the output hook act exactly once, here.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "contract/params.h"
#include "contract/plan.h"
#include "cpu/launch.h"
#include "cpu/scratch.h"

namespace trencadis::cpu {

/// Rows as the main loop leaves them: o relative to row_max and not yet divided by row_sum.
struct RowStates {
  float* o;  // [rows, dim_vo] in natural order
  const float* row_max;
  const float* row_sum;
};

/// o [rows, dim_vo] is final but for the output hook.
inline void store_output(const Launch& launch, const TileCoord& tile, float* o) {
  const contract::AttentionParams& p = launch.params;
  if (launch.variant.output != nullptr)
    launch.variant.output(p.variant, tile, o, p.head_dim_vo, launch.dim_vo);
  for (int r = 0; r < tile.rows; ++r) {
    const RowAddress at = launch.row_address(tile, r);
    const std::int64_t offset = at.token * p.o_stride_token + at.head * p.o_stride_head;
    launch.simd.store_row[index(p.o_type)](o + std::int64_t{r} * launch.dim_vo, p.head_dim_vo,
                                           static_cast<char*>(p.o) + offset * size_of(p.o_type));
  }
}

inline void store_lse(const Launch& launch, const RowAddress& at, float natural) {
  const contract::AttentionParams& p = launch.params;
  if (p.lse == nullptr) return;
  constexpr float kLog2E = 1.44269504f;
  p.lse[at.token * p.lse_stride_token + at.head * p.lse_stride_head] =
      p.lse_base_two != 0 ? natural * kLog2E : natural;
}

/// A row's sum relative to row_max becomes its final value; the sink joins the denominator. Returns
/// the LSE, which is without the sink, so that the state can still be merged with others.
inline float normalise(const Launch& launch, const RowAddress& at, float* o, float row_max,
                       float row_sum) {
  if (row_sum == 0.0f) {  // no visible key
    std::fill_n(o, launch.dim_vo, 0.0f);
    return -std::numeric_limits<float>::infinity();
  }
  float denominator = row_sum;
  if (launch.params.sinks != nullptr)
    denominator += std::exp(launch.params.sinks[at.head] - row_max);
  launch.simd.divide(o, launch.dim_vo, denominator);
  return row_max + std::log(row_sum);
}

inline void write_final(const Launch& launch, const TileCoord& tile, const RowStates& states) {
  if (launch.params.use_softmax != 0) {
    for (int r = 0; r < tile.rows; ++r) {
      const RowAddress at = launch.row_address(tile, r);
      store_lse(launch, at,
                normalise(launch, at, states.o + std::int64_t{r} * launch.dim_vo, states.row_max[r],
                          states.row_sum[r]));
    }
  }
  store_output(launch, tile, states.o);
}

/// Partial states are normalised, without sink and output hook, in natural logarithms.
inline void write_partial(const Launch& launch, const TileCoord& tile, const RowStates& states,
                          std::int64_t slot) {
  const contract::AttentionParams& p = launch.params;
  for (int r = 0; r < tile.rows; ++r) {
    float* o = states.o + std::int64_t{r} * launch.dim_vo;
    const std::int64_t row = slot * launch.slot_rows + r;
    float lse = 0.0f;
    if (p.use_softmax != 0) {
      const bool empty = states.row_sum[r] == 0.0f;
      if (!empty) launch.simd.divide(o, launch.dim_vo, states.row_sum[r]);
      lse = empty ? -std::numeric_limits<float>::infinity()
                  : states.row_max[r] + std::log(states.row_sum[r]);
    }
    p.partial_lse[row] = lse;
    std::copy_n(o, p.head_dim_vo, p.partial_o + row * p.head_dim_vo);
  }
}

/// Merges the partial states of one split row block, in KV order, into the final output.
inline void merge_group(const Launch& launch, const contract::PlanView& plan,
                        const contract::MergeGroup& group, Scratch& scratch) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const contract::AttentionParams& p = launch.params;
  const TileCoord tile = launch.tile_coord(plan.row_blocks()[group.row_block], group.kv_head);
  for (int r = 0; r < tile.rows; ++r) {
    float* o = scratch.o + std::int64_t{r} * launch.dim_vo;
    std::fill_n(o, launch.dim_vo, 0.0f);
    const auto row_of = [&](int i) {
      return std::int64_t{group.slot_begin + i} * launch.slot_rows + r;
    };
    float largest = -kInfinity;
    for (int i = 0; i < group.slot_count; ++i)
      largest = std::max(largest, p.partial_lse[row_of(i)]);
    float sum = 0.0f;
    for (int i = 0; i < group.slot_count; ++i) {
      const float lse = p.partial_lse[row_of(i)];
      if (lse == -kInfinity) continue;  // whatever its o holds
      const float weight = p.use_softmax != 0 ? std::exp(lse - largest) : 1.0f;
      sum += weight;
      launch.simd.add_scaled(o, p.partial_o + row_of(i) * p.head_dim_vo, p.head_dim_vo, weight);
    }
    scratch.row_max[r] = largest;
    scratch.row_sum[r] = sum;
  }
  write_final(launch, tile, {scratch.o, scratch.row_max, scratch.row_sum});
}

/// A row block that sees no key, for every head: a merge of nothing.
inline void write_empty(const Launch& launch, const contract::PlanView& plan,
                        std::int32_t row_block, Scratch& scratch) {
  for (std::int32_t head = 0; head < launch.params.num_kv_heads; ++head)
    merge_group(launch, plan, {row_block, head, 0, 0}, scratch);
}

}  // namespace trencadis::cpu
