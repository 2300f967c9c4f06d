// Keys and values of a block row, from the pool into shared tiles: the one collaborator in which
// storage differs. Paged, gathered and contiguous tokens are all looked up a tile ahead, one thread
// a token; the copies then read a ready address, so that page size costs no arithmetic there.
#pragma once

#include "contract/params.h"
#include "cuda/collective/block.h"
#include "cuda/collective/element.h"
#include "cuda/collective/shape.h"
#include "cuda/ptx/cp_async.h"
#include "cuda/ptx/memory.h"
#include "cuda/ptx/thread.h"

namespace trencadis::collective {

/// The pool as a CTA reads it. Strides and offsets are bytes.
struct Pool {
  const char* keys;
  const char* values;
  long long key_page, key_token, value_page, value_token;
  /// Every row begins at a multiple of 16 bytes, so that it can be copied in chunks.
  bool aligned;

  template <class Tag>
  TRENCADIS_DEVICE static Pool of(const contract::AttentionParams& p, int kv_head) {
    constexpr int element_bytes = Element<Tag>::kBytes;
    const auto keys = static_cast<const char*>(p.k) + kv_head * p.k_stride_head * element_bytes;
    const auto values = static_cast<const char*>(p.v) + kv_head * p.v_stride_head * element_bytes;
    Pool pool{keys,
              values,
              p.k_stride_page * element_bytes,
              p.k_stride_token * element_bytes,
              p.v_stride_page * element_bytes,
              p.v_stride_token * element_bytes,
              true};
    const auto bits = reinterpret_cast<unsigned long long>(keys) |
                      reinterpret_cast<unsigned long long>(values) |
                      static_cast<unsigned long long>(pool.key_page | pool.key_token |
                                                      pool.value_page | pool.value_token);
    pool.aligned = (bits & 15) == 0;
    return pool;
  }
};

/// Storage tokens [begin, end) of a block row, tile by tile.
template <class Config, class Shape>
class KvSource {
 public:
  /// What a thread has found out about its token of a tile and not yet told the others.
  struct Lookup {
    int page;    // < 0: no token
    int offset;  // token in the page
    int position;
  };

  TRENCADIS_DEVICE KvSource(const contract::BsrParams& bsr, const Pool& pool, int block_row,
                            int begin, int end, char* shared)
      : bsr_(bsr),
        pool_(pool),
        first_block_(bsr.indptr[block_row]),
        begin_(begin),
        end_(end),
        thread_(ptx::opaque(ptx::thread_index())),
        shared_(shared),
        tiles_(ptx::shared_place(shared) + Shape::kRing) {}

  TRENCADIS_DEVICE int tiles() const {
    return (end_ - begin_ + Shape::kTokens - 1) / Shape::kTokens;
  }
  /// Tokens of a tile; the others of a last tile are zeros in shared memory.
  TRENCADIS_DEVICE int tokens(int tile) const {
    return min_of(Shape::kTokens, end_ - begin_ - tile * Shape::kTokens);
  }
  /// True where a token's logical position is its index in the storage.
  TRENCADIS_DEVICE bool in_order() const { return bsr_.positions == nullptr; }

  /// Logical position of a token of a tile whose lookup was published. Beyond the last token it is
  /// the last one's, so that hooks may be called with it.
  TRENCADIS_DEVICE int position(int tile, int token) const {
    if (in_order()) return min_of(begin_ + tile * Shape::kTokens + token, end_ - 1);
    return positions(tile)[token];
  }

  /// The calling thread's token of `tile`, the page id on its way.
  TRENCADIS_DEVICE Lookup look_up(int tile) const {
    const int index = thread_;
    if (index >= Shape::kTokens || tile >= tiles()) return {-1, 0, 0};
    const int token = begin_ + tile * Shape::kTokens + index;
    const bool valid = token < end_;
    const int known = valid ? token : end_ - 1;
    const int column = bsr_.page.divide(known);
    const int offset = known - column * bsr_.page.divisor;
    const int entry = first_block_ + column;
    const int page = bsr_.indices != nullptr ? bsr_.indices[entry] : entry;
    const int place = in_order() ? column : bsr_.positions[entry];
    return {valid ? page : -1, offset, place * bsr_.page.divisor + offset};
  }

  /// Tells the CTA. To be followed by a barrier.
  TRENCADIS_DEVICE void publish(int tile, const Lookup& found) const {
    const int index = thread_;
    if (index >= Shape::kTokens || tile >= tiles()) return;
    const bool valid = found.page >= 0;
    entries(tile)[index] = {
        valid ? found.page * pool_.key_page + found.offset * pool_.key_token : kNoToken,
        valid ? found.page * pool_.value_page + found.offset * pool_.value_token : kNoToken};
    if (!in_order()) positions(tile)[index] = found.position;
  }

  /// Starts the copies of a published tile into its stage; past the last tile there are none, and
  /// the group is empty.
  TRENCADIS_DEVICE void copy(int tile) const {
    if (tile < tiles()) {
      copy_rows<typename Shape::KeyTile, Config::kHeadDimQk>(
          pool_.keys, [&](int row) { return entries(tile)[row].key; }, keys(tile));
      copy_rows<typename Shape::ValueTile, Config::kHeadDimVo>(
          pool_.values, [&](int row) { return entries(tile)[row].value; }, values(tile));
    }
    ptx::commit_copies();
  }

  // Where a tile lies in shared memory, for instructions on it and for hooks.
  TRENCADIS_DEVICE ptx::SharedAddress keys(int tile) const { return tiles_ + stage_offset(tile); }
  TRENCADIS_DEVICE ptx::SharedAddress values(int tile) const {
    return tiles_ + (stage_offset(tile) + Shape::kKeyBytes);
  }
  TRENCADIS_DEVICE char* key_bytes(int tile) const {
    return shared_ + Shape::kRing + stage_offset(tile);
  }
  TRENCADIS_DEVICE char* value_bytes(int tile) const { return key_bytes(tile) + Shape::kKeyBytes; }

 private:
  template <class Tile, int kDim, class OffsetOf>
  TRENCADIS_DEVICE void copy_rows(const char* base, OffsetOf offset_of,
                                  ptx::SharedAddress to) const {
    constexpr int kUsed = kDim / Tile::kChunkElements;
    for (int i = thread_; i < Shape::kTokens * Tile::kChunks; i += Shape::kThreads) {
      const int row = i / Tile::kChunks;
      const int chunk = i % Tile::kChunks;
      const long long offset = offset_of(row);
      const bool valid = offset != kNoToken && chunk < kUsed;
      const char* from = base + (valid ? offset + chunk * tile::kChunkBytes : 0);
      if (pool_.aligned)
        ptx::copy_async_16(to + Tile::offset(row, chunk), from, valid);
      else
        ptx::store_shared_16(
            to + Tile::offset(row, chunk),
            valid ? load_elements_16<typename Config::Element>(from) : ptx::Bytes16{});
    }
  }

  TRENCADIS_DEVICE static int stage_offset(int tile) {
    return tile % Shape::kStages * Shape::kStageBytes;
  }

  TRENCADIS_DEVICE TokenEntry* entries(int tile) const {
    return reinterpret_cast<TokenEntry*>(shared_ + Shape::kTokenTable) +
           tile % Shape::kTables * Shape::kTokens;
  }
  TRENCADIS_DEVICE int* positions(int tile) const {
    return reinterpret_cast<int*>(shared_ + Shape::kPositionTable) +
           tile % Shape::kTables * Shape::kTokens;
  }

  const contract::BsrParams& bsr_;
  const Pool& pool_;
  int first_block_;
  int begin_, end_;
  int thread_;
  char* shared_;
  ptx::SharedAddress tiles_;  // the ring of stages
};

}  // namespace trencadis::collective
