// What all items of one run share: the collaborators, and what follows from the parameters once.
#pragma once

#include <cstdint>

#include "contract/params.h"
#include "contract/plan.h"
#include "cpu/microkernels.h"
#include "cpu/variant_ops.h"

namespace trencadis::cpu {

constexpr int index(contract::Storage storage) {
  return static_cast<int>(storage);
}

/// Where a fused row lies in q, o and lse.
struct RowAddress {
  std::int64_t token;
  std::int64_t head;
};

struct Launch {
  const Microkernels& simd;
  const VariantOps& variant;
  const contract::AttentionParams& params;
  int slot_rows;       // rows of a partial slot
  int dim_qk, dim_vo;  // padded row lengths
  /// Rows are turned into padded rows of floats first: for hooks, and where D needs padding.
  bool stage_keys, stage_values;
  contract::Storage key_storage, value_storage;  // as the kernels meet them: f32 where staged

  Launch(const Microkernels& simd_, const VariantOps& variant_,
         const contract::AttentionParams& params_, int slot_rows_)
      : simd(simd_),
        variant(variant_),
        params(params_),
        slot_rows(slot_rows_),
        dim_qk(round_up(params_.head_dim_qk, simd_.dim_multiple)),
        dim_vo(round_up(params_.head_dim_vo, simd_.dim_multiple)),
        stage_keys(variant_.key != nullptr || dim_qk != params_.head_dim_qk),
        stage_values(variant_.value != nullptr || dim_vo != params_.head_dim_vo),
        key_storage(stage_keys ? contract::Storage::f32 : params_.kv_type),
        value_storage(stage_values ? contract::Storage::f32 : params_.kv_type) {}

  TileCoord tile_coord(const contract::RowBlock& block, int kv_head) const {
    const int qo_begin = params.qo_indptr[block.request];
    return {.request = block.request,
            .first_row = block.first_row,
            .rows = block.row_count,
            .group = params.num_qo_heads / params.num_kv_heads,
            .kv_head = kv_head,
            .qo_begin = qo_begin,
            .qo_len = params.qo_indptr[block.request + 1] - qo_begin,
            .kv_len = params.kv_lens[block.request]};
  }

  RowAddress row_address(const TileCoord& tile, int r) const {
    const std::int64_t fused = std::int64_t{tile.first_row} + r;
    return {tile.qo_begin + fused / tile.group,
            std::int64_t{tile.kv_head} * tile.group + fused % tile.group};
  }
};

}  // namespace trencadis::cpu
