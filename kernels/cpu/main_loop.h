// The main loop of CPU attention: one work item, from its queries to its output or partial state.
// It is the same for every storage type, variant and instruction set. What differs is asked of a
// collaborator: KvSource says where tokens lie, Microkernels do the arithmetic, VariantOps are the
// user's hooks.
//
// A tile of few rows streams the pool (decode); one of many packs it (prefill). Both hold the same
// state: o is the sum of weights times values relative to row_max, row_sum the denominator.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "contract/params.h"
#include "contract/plan.h"
#include "contract/units.h"
#include "cpu/kv_source.h"
#include "cpu/launch.h"
#include "cpu/output.h"
#include "cpu/scratch.h"
#include "cpu/variant_ops.h"

namespace trencadis::cpu {

/// From this many rows on, packing pays for itself.
inline constexpr int kPackedRows = 12;

/// KV heads [first, first + count) of a work item, and where each leaves its result: a partial
/// slot, or kWriteThrough.
struct HeadRange {
  int first;
  int count;
  const std::int32_t* slots;  // [count]
};

class MainLoop {
 public:
  MainLoop(const Launch& launch, Scratch& scratch) : launch_(launch), scratch_(scratch) {}

  /// Heads that run() takes at once for a block of `rows` rows.
  static int max_heads(const Launch& launch, int rows) {
    const bool streams = rows < kPackedRows && !launch.stage_keys && !launch.stage_values;
    return streams ? kMaxTileRows / rows : 1;
  }

  /// Attends the rows of `block` to storage tokens [item.kv_begin, item.kv_end) for each of the
  /// heads and writes the final rows or the partial states.
  void run(const contract::RowBlock& block, const contract::TileClass& tile_class,
           const contract::WorkItem& item, const HeadRange& heads) {
    begin(block, heads);
    load_queries();
    const KvSource source(launch_.params, block.block_row, heads.first);
    const int keys_per_tile = std::min<int>(tile_class.kv_tokens, kMaxTileKeys);
    const auto [first, last] = visible_storage(source, item);
    KvTile* now = &scratch_.tiles[0];
    KvTile* next = &scratch_.tiles[1];
    source.locate(first, std::min(last, first + keys_per_tile), *now);
    for (int at = first; at < last; at += keys_per_tile) {
      const int after = std::min(last, at + keys_per_tile);
      source.locate(after, std::min(last, after + keys_per_tile), *next);
      attend_tile(source, *now, *next);
      std::swap(now, next);
    }
    finish(heads);
  }

 private:
  using Storage = contract::Storage;
  static constexpr float kInfinity = std::numeric_limits<float>::infinity();

  const Microkernels& simd() const { return launch_.simd; }
  const contract::AttentionParams& params() const { return launch_.params; }

  void begin(const contract::RowBlock& block, const HeadRange& heads) {
    tile_ = launch_.tile_coord(block, heads.first);
    heads_ = heads.count;
    rows_ = tile_.rows * heads_;
    packed_ = tile_.rows >= kPackedRows;
    for (int r = 0; r < rows_; ++r) {
      scratch_.row_max[r] = -kInfinity;
      scratch_.row_sum[r] = 0.0f;
      scratch_.rescale[r] = 1.0f;
    }
    std::fill_n(scratch_.o, std::int64_t{rows_} * launch_.dim_vo, 0.0f);
  }

  /// Calls fn(coordinates of one head, its first row in scratch).
  template <class Fn>
  void for_each_head(Fn fn) const {
    TileCoord tile = tile_;
    for (int h = 0; h < heads_; ++h, ++tile.kv_head) fn(tile, h * tile.rows);
  }

  static float* row(float* rows, int r, int stride) { return rows + std::int64_t{r} * stride; }

  // --- queries ---------------------------------------------------------------------------------

  void load_queries() {
    const contract::AttentionParams& p = params();
    const int dim = launch_.dim_qk;
    for_each_head([&](const TileCoord& tile, int first) {
      for (int r = 0; r < tile.rows; ++r) {
        float* q = row(scratch_.q, first + r, dim);
        const RowAddress at = launch_.row_address(tile, r);
        const std::int64_t offset = at.token * p.q_stride_token + at.head * p.q_stride_head;
        simd().load_row[index(p.q_type)](static_cast<const char*>(p.q) + offset * size_of(p.q_type),
                                         p.head_dim_qk, q);
        std::fill(q + p.head_dim_qk, q + dim, 0.0f);
      }
      if (launch_.variant.query != nullptr)
        launch_.variant.query(p.variant, tile, row(scratch_.q, first, dim), p.head_dim_qk, dim);
    });
    for (int r = 0; r < rows_; ++r) {
      float* q = row(scratch_.q, r, dim);
      simd().scale(q, dim, p.sm_scale);
      if (packed_ || launch_.key_storage == Storage::f32) continue;
      simd().to_load_order[index(launch_.key_storage)](q, dim, scratch_.row);
      std::copy_n(scratch_.row, dim, q);
    }
  }

  // --- which keys a row sees -------------------------------------------------------------------

  struct Range {
    std::int64_t first, last;  // inclusive, in logical positions
  };

  /// Of row r, by the bounds; both ends ascend with r.
  Range visible(int r) const {
    const contract::BoundsParams& bounds = params().bounds;
    const std::int64_t at =
        (std::int64_t{tile_.first_row} + r) / tile_.group + tile_.kv_len - tile_.qo_len;
    return {bounds.left < 0 ? 0 : at - bounds.left,
            bounds.right < 0 ? tile_.kv_len - std::int64_t{1} : at + bounds.right};
  }

  struct StorageRange {
    int first, last;  // half-open
  };

  /// The item's range without the ends that no row sees.
  StorageRange visible_storage(const KvSource& source, const contract::WorkItem& item) const {
    if (!source.in_order()) return {item.kv_begin, item.kv_end};
    const std::int64_t first = std::max<std::int64_t>(item.kv_begin, visible(0).first);
    const std::int64_t last = std::min<std::int64_t>(item.kv_end, visible(tile_.rows - 1).last + 1);
    if (first >= last) return {item.kv_begin, item.kv_begin};
    return {static_cast<int>(first), static_cast<int>(last)};
  }

  /// Writes `hidden` over the logits that the bounds hide. False: there were none.
  bool apply_bounds(int count, float hidden) {
    const int* positions = scratch_.positions;
    const Range top = visible(0);
    const Range bottom = visible(tile_.rows - 1);
    if (positions[0] >= bottom.first && positions[count - 1] <= top.last) return false;
    for (int r = 0; r < tile_.rows; ++r) {
      const Range range = visible(r);
      const auto begin = std::lower_bound(positions, positions + count, range.first) - positions;
      const auto end = std::upper_bound(positions, positions + count, range.last) - positions;
      for (int h = 0; h < heads_; ++h) {
        float* s = row(scratch_.s, h * tile_.rows + r, kMaxTileKeys);
        std::fill(s, s + begin, hidden);
        std::fill(s + std::max(begin, end), s + count, hidden);
      }
    }
    return true;
  }

  // --- one tile --------------------------------------------------------------------------------

  void attend_tile(const KvSource& source, const KvTile& now, const KvTile& next) {
    source.positions(now.begin, now.begin + now.count, scratch_.positions);
    score(source, now);
    const float hidden = params().use_softmax != 0 ? -kInfinity : 0.0f;
    if (launch_.variant.logits != nullptr)
      for_each_head([&](const TileCoord& tile, int first) {
        launch_.variant.logits(params().variant, tile, scratch_.positions, now.count,
                               row(scratch_.s, first, kMaxTileKeys), kMaxTileKeys,
                               params().use_softmax != 0);
      });
    const bool bounded = apply_bounds(now.count, hidden);
    weigh(now.count);
    const bool hides = bounded || (launch_.variant.hooks & variant::kLogitsMask) != 0;
    accumulate(source, now, next, hides);
  }

  /// s = q k^T.
  void score(const KvSource& source, const KvTile& tile) {
    const int dim = launch_.dim_qk;
    const int value_bytes = params().head_dim_vo * static_cast<int>(size_of(params().kv_type));
    const void* const* keys = tile.keys;
    if (launch_.stage_keys) {
      stage(keys, tile.count, params().head_dim_qk, dim, scratch_.keys);
      if (launch_.variant.key != nullptr)
        launch_.variant.key(params().variant, tile_, scratch_.positions, tile.count, scratch_.keys,
                            params().head_dim_qk, dim);
      keys = scratch_.staged_rows;
    }
    if (packed_) {
      simd().pack_keys[index(launch_.key_storage)](keys, tile.count, dim, scratch_.packed,
                                                   {tile.values, tile.count, value_bytes});
      const int panels = contract::ceil_div(tile.count, simd().panel_width);
      simd().gemm({scratch_.q, dim, tile_.rows, dim, scratch_.packed, panels, nullptr, scratch_.s,
                   kMaxTileKeys});
      return;
    }
    const PoolRows rows{
        keys,        tile.count,  heads_,    source.key_head_bytes(), source.heads_adjacent(),
        value_bytes, tile.values, tile.count};
    simd().score[index(launch_.key_storage)](
        {scratch_.q, dim, tile_.rows, dim, scratch_.s, kMaxTileKeys, rows});
  }

  /// Logits become weights.
  void weigh(int count) {
    const int padded = round_up(count, simd().panel_width);
    if (params().use_softmax != 0) {
      simd().softmax({scratch_.s, kMaxTileKeys, rows_, count, padded, scratch_.row_max,
                      scratch_.row_sum, scratch_.rescale});
      return;
    }
    for (int r = 0; r < rows_; ++r)
      std::fill_n(row(scratch_.s, r, kMaxTileKeys) + count, padded - count, 0.0f);
  }

  /// o = o * rescale + s v.
  void accumulate(const KvSource& source, const KvTile& tile, const KvTile& next, bool hides) {
    const int dim = launch_.dim_vo;
    const int key_bytes = params().head_dim_qk * static_cast<int>(size_of(params().kv_type));
    const void* const* values = tile.values;
    if (hides) {
      values = without_hidden(values, tile.count);
      if (values == nullptr) return;
    }
    if (launch_.stage_values) {
      stage(values, tile.count, params().head_dim_vo, dim, scratch_.values);
      if (launch_.variant.value != nullptr)
        launch_.variant.value(params().variant, tile_, scratch_.positions, tile.count,
                              scratch_.values, params().head_dim_vo, dim);
      values = scratch_.staged_rows;
    }
    if (packed_) {
      simd().pack_values[index(launch_.value_storage)](values, tile.count, dim, scratch_.packed,
                                                       {next.keys, next.count, key_bytes});
      simd().gemm({scratch_.s, kMaxTileKeys, tile_.rows, tile.count, scratch_.packed,
                   dim / simd().panel_width, scratch_.rescale, scratch_.o, dim});
      return;
    }
    const PoolRows rows{
        values,    tile.count, heads_,    source.value_head_bytes(), source.heads_adjacent(),
        key_bytes, next.keys,  next.count};
    simd().accumulate[index(launch_.value_storage)](
        {scratch_.s, kMaxTileKeys, tile_.rows, dim, scratch_.rescale, scratch_.o, dim, rows});
  }

  /// Values that no row gives weight to may be garbage, and 0 * NaN is NaN: one that is seen stands
  /// for them. Null where none is; no state has changed then.
  const void* const* without_hidden(const void* const* values, int count) {
    bool seen[kMaxTileKeys] = {};
    for (int r = 0; r < rows_; ++r) {
      const float* weights = row(scratch_.s, r, kMaxTileKeys);
      for (int c = 0; c < count; ++c) seen[c] |= weights[c] != 0.0f;
    }
    const bool* first = std::find(seen, seen + count, true);
    if (first == seen + count) return nullptr;
    for (int c = 0; c < count; ++c)
      scratch_.visible_values[c] = seen[c] ? values[c] : values[first - seen];
    return scratch_.visible_values;
  }

  /// Rows of the pool become padded rows of floats, listed in staged_rows.
  void stage(const void* const* rows, int count, int head_dim, int dim, float* out) {
    for (int c = 0; c < count; ++c, out += dim) {
      simd().load_row[index(params().kv_type)](rows[c], head_dim, out);
      std::fill(out + head_dim, out + dim, 0.0f);
      scratch_.staged_rows[c] = out;
    }
  }

  // --- output ----------------------------------------------------------------------------------

  void finish(const HeadRange& heads) {
    const int dim = launch_.dim_vo;
    if (!packed_ && launch_.value_storage != Storage::f32) {
      for (int r = 0; r < rows_; ++r) {
        float* o = row(scratch_.o, r, dim);
        simd().from_load_order[index(launch_.value_storage)](o, dim, scratch_.row);
        std::copy_n(scratch_.row, dim, o);
      }
    }
    for_each_head([&](const TileCoord& tile, int first) {
      const RowStates states{row(scratch_.o, first, dim), scratch_.row_max + first,
                             scratch_.row_sum + first};
      const std::int32_t slot = heads.slots[tile.kv_head - heads.first];
      if (slot == contract::kWriteThrough)
        write_final(launch_, tile, states);
      else
        write_partial(launch_, tile, states, slot);
    });
  }

  const Launch& launch_;
  Scratch& scratch_;
  TileCoord tile_{};  // of the first head
  int heads_ = 1;
  int rows_ = 0;  // of all heads
  bool packed_ = false;
};

}  // namespace trencadis::cpu
