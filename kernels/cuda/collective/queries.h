// The rows of a work item: their coordinates, and their queries in a shared tile.
#pragma once

#include "contract/params.h"
#include "cuda/collective/block.h"
#include "cuda/collective/row_scratch.h"
#include "cuda/collective/shape.h"
#include "cuda/ptx/memory.h"
#include "cuda/ptx/thread.h"
#include "variant/chain.h"

namespace trencadis::collective {

template <class Config, class Shape>
struct Queries {
  using Functor = typename Config::Functor;
  using Params = typename Config::Params;
  using Tag = typename Config::Element;
  using Tile = typename Shape::QueryTile;

  TRENCADIS_DEVICE static RowEntry* rows(char* shared) {
    return reinterpret_cast<RowEntry*>(shared + Shape::kRowTable);
  }

  /// Rows beyond the block's are the last one again, so that hooks may be called with them. To be
  /// followed by a barrier.
  TRENCADIS_DEVICE static void place_rows(const Block& block, char* shared) {
    for (int r = ptx::thread_index(); r < Shape::kRows; r += Shape::kThreads)
      rows(shared)[r] = block.row(min_of(r, block.rows - 1));
  }

  /// After the barrier. Rows beyond the block's are zeros. `negate` turns the sign of a query, for
  /// a negative sm_scale. To be followed by a barrier.
  TRENCADIS_DEVICE static void load(const contract::AttentionParams& params, const Params& p,
                                    const Block& block, bool negate, char* shared) {
    constexpr int kUsed = Config::kHeadDimQk / Tile::kChunkElements;
    constexpr int kElementBytes = Element<Tag>::kBytes;
    const auto* q = static_cast<const char*>(params.q);
    const long long token_bytes = params.q_stride_token * kElementBytes;
    const long long head_bytes = params.q_stride_head * kElementBytes;
    const bool aligned = ((reinterpret_cast<unsigned long long>(q) |
                           static_cast<unsigned long long>(token_bytes | head_bytes)) &
                          15) == 0;
    const ptx::SharedAddress tile = ptx::shared_place(shared) + Shape::kQuery;
    const unsigned signs = negate ? 0x80008000u : 0u;
    for (int i = ptx::thread_index(); i < Shape::kRows * Tile::kChunks; i += Shape::kThreads) {
      const int r = i / Tile::kChunks;
      const int chunk = i % Tile::kChunks;
      ptx::Bytes16 value{};
      if (r < block.rows && chunk < kUsed) {
        const RowEntry row = rows(shared)[r];
        const char* from = q + (block.qo_begin + row.qo_pos) * token_bytes +
                           row.qo_head * head_bytes + chunk * tile::kChunkBytes;
        value = aligned ? ptx::load_global_16(from) : load_elements_16<Tag>(from);
        for (unsigned& word : value.w) word ^= signs;
      }
      ptx::store_shared_16(tile + Tile::offset(r, chunk), value);
    }
    if constexpr (variant::kHasHook<Functor, variant::kQueryTransform>) {
      ptx::sync_cta();
      transform(p, block, negate, shared);
    }
  }

 private:
  /// A hook sees the query itself, not the negated one.
  TRENCADIS_DEVICE static void transform(const Params& p, const Block& block, bool negate,
                                         char* shared) {
    const int warp = ptx::warp_index();
    auto* scratch =
        reinterpret_cast<float*>(shared + Shape::kRowScratch + warp * Shape::kRowScratchBytes);
    for (int r = warp; r < block.rows; r += Config::kWarps) {
      const variant::RowCoord at = block.row_coord(rows(shared)[r]);
      rewrite_row<Tag, Tile, Config::kHeadDimQk>(
          shared + Shape::kQuery, r, scratch, [&](const FloatRow& row, int d) {
            const float value = Functor::query_transform(p, SignedRow{row, negate}, d, at);
            return negate ? -value : value;
          });
    }
  }

  struct SignedRow {
    const FloatRow& row;
    bool negate;
    TRENCADIS_FN float operator[](int d) const { return negate ? -row[d] : row[d]; }
    TRENCADIS_FN int size() const { return row.size(); }
  };
};

}  // namespace trencadis::collective
