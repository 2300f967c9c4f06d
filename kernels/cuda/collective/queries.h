// The rows of a work item: their coordinates, and their queries in a shared tile.
#pragma once

#include "contract/params.h"
#include "cuda/collective/block.h"
#include "cuda/collective/element_run.h"
#include "cuda/collective/row_scratch.h"
#include "cuda/collective/shape.h"
#include "cuda/ptx/cp_async.h"
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

  TRENCADIS_DEVICE static RowEntry row(char* shared, int r) {
    return ptx::load_shared<RowEntry>(place(shared, r));
  }

  /// Rows beyond the block's are the last one again, so that hooks may be called with them. To be
  /// followed by a barrier.
  TRENCADIS_DEVICE static void place_rows(const Block& block, char* shared) {
    for (int r = ptx::thread_index(); r < Shape::kRows; r += Shape::kThreads)
      ptx::store_shared(place(shared, r), block.row(min_of(r, block.rows - 1)));
  }

  /// After the barrier. Starts the copies, of no group yet; rows beyond the block's are zeros.
  TRENCADIS_DEVICE static void copy(const contract::AttentionParams& params, const Block& block,
                                    char* shared) {
    constexpr int kUsed = Config::kHeadDimQk / Tile::kChunkElements;
    const bool aligned = rows_aligned<Tag>(params.q, params.q_stride_token, params.q_stride_head);
    const ptx::SharedAddress tile = ptx::shared_place(shared) + Shape::kQuery;
    const char* const first = element_at<Tag>(params.q, block.qo_begin * params.q_stride_token);
    const int num_rows = block.rows;
    constexpr unsigned kAll = Shape::kRows * Tile::kChunks;
    // Some at a time: where the rows lie is read ahead of the copies.
    constexpr unsigned kBatch = 4;
#pragma unroll 1
    for (unsigned begin = ptx::thread_index(); begin < kAll; begin += kBatch * Shape::kThreads) {
      RowEntry at[kBatch];
#pragma unroll
      for (unsigned n = 0; n < kBatch; ++n)
        at[n] =
            row(shared, min_of((begin + n * Shape::kThreads) / Tile::kChunks, Shape::kRows - 1));
#pragma unroll
      for (unsigned n = 0; n < kBatch; ++n) {
        const unsigned i = begin + n * Shape::kThreads;
        if (kAll % (kBatch * Shape::kThreads) != 0 && i >= kAll) break;
        const int r = static_cast<int>(i / Tile::kChunks);
        const int chunk = static_cast<int>(i % Tile::kChunks);
        const bool valid = r < num_rows && chunk < kUsed;
        const char* from = element_at<Tag>(first, at[n].qo_pos * params.q_stride_token +
                                                      at[n].qo_head * params.q_stride_head) +
                           chunk * tile::kChunkBytes;
        if (aligned)
          ptx::copy_async_16(tile + Tile::offset(r, chunk), from, valid);
        else
          ptx::store_shared_16(tile + Tile::offset(r, chunk),
                               valid ? load_elements_16<Tag>(from) : ptx::Bytes16{});
      }
    }
  }

  /// Applies the hook, once the copies are there: of all groups, which only functors with the hook
  /// wait for. To be followed by a barrier.
  TRENCADIS_DEVICE static void transform(const Params& p, const Block& block, char* shared) {
    if constexpr (variant::kHasHook<Functor, variant::kQueryTransform>) {
      ptx::wait_copies<0>();
      ptx::sync_cta();
      const int warp = ptx::warp_index();
      auto* scratch =
          reinterpret_cast<float*>(shared + Shape::kRowScratch + warp * Shape::kRowScratchBytes);
      for (int r = warp; r < block.rows; r += Config::kWarps) {
        const variant::RowCoord at = block.row_coord(row(shared, r));
        rewrite_row<Tag, Tile, Config::kHeadDimQk>(
            shared + Shape::kQuery, r, scratch,
            [&](const FloatRow& row, int d) { return Functor::query_transform(p, row, d, at); });
      }
    }
  }

 private:
  TRENCADIS_DEVICE static ptx::SharedAddress place(char* shared, int r) {
    return ptx::shared_place(shared) + (Shape::kRowTable + r * int(sizeof(RowEntry)));
  }
};

}  // namespace trencadis::collective
