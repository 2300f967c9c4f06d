// Keys and values of a block row, from the pool into shared tiles: the one collaborator in which
// storage differs. Paged, gathered and contiguous tokens are all looked up a tile ahead, one thread
// a token; the copies then read a ready address, so that page size costs no arithmetic there.
#pragma once

#include "contract/params.h"
#include "cuda/collective/block.h"
#include "cuda/collective/element_run.h"
#include "cuda/collective/launch.h"
#include "cuda/collective/shape.h"
#include "cuda/ptx/cp_async.h"
#include "cuda/ptx/memory.h"
#include "cuda/ptx/thread.h"

namespace trencadis::collective {

/// Storage tokens [begin, end) of a block row, tile by tile.
template <class Config, class Shape>
class KvSource {
 public:
  static constexpr int kTokens = Shape::kTokens;

  /// What a thread has asked for about its token of a tile and not yet told the others. Nothing
  /// here is looked at before publish(), so that nobody waits for memory in between.
  struct Lookup {
    int page;
    int place;  // of the page among the block columns
  };

  TRENCADIS_DEVICE KvSource(const Launch<Config>& launch, const Block& block, int begin, int end)
      : params_(launch.params),
        block_(block),
        begin_(begin),
        end_(end),
        thread_(ptx::opaque(ptx::thread_index())),
        shared_(launch.shared),
        tiles_(ptx::shared_place(launch.shared) + Shape::kRing) {}

  TRENCADIS_DEVICE int begin() const { return begin_; }
  TRENCADIS_DEVICE int end() const { return end_; }
  TRENCADIS_DEVICE int tiles() const {
    return (end_ - begin_ + Shape::kTokens - 1) / Shape::kTokens;
  }
  /// Tokens of a tile; the others of a last tile are zeros in shared memory.
  TRENCADIS_DEVICE int tokens(int tile) const {
    return min_of(Shape::kTokens, end_ - begin_ - tile * Shape::kTokens);
  }
  /// True where a token's logical position is its index in the storage.
  TRENCADIS_DEVICE bool in_order() const { return table().positions == nullptr; }

  /// Logical position of a token of a tile whose lookup was published. Beyond the last token it is
  /// the last one's, so that hooks may be called with it.
  TRENCADIS_DEVICE int position(int tile, int token) const {
    if (in_order()) return min_of(begin_ + tile * Shape::kTokens + token, end_ - 1);
    return ptx::load_shared<int>(position_place(tile, token));
  }

  /// The calling thread's token of `tile`, the page id on its way.
  TRENCADIS_DEVICE Lookup look_up(int tile) const {
    if (!has_token(tile)) return {0, 0};
    const int column = params_.kv.page.divide(storage_token(tile));
    const int entry = block_.first_page + column;
    return {table().pages != nullptr ? table().pages[entry] : entry,
            in_order() ? column : table().positions[entry]};
  }

  /// Tells the CTA. To be followed by a barrier.
  TRENCADIS_DEVICE void publish(int tile, const Lookup& found) const {
    if (!has_token(tile)) return;
    const contract::Divisor& size = params_.kv.page;
    const int token = storage_token(tile);
    const int offset = token - size.divide(token) * size.divisor;
    const bool valid = begin_ + tile * Shape::kTokens + thread_ < end_;
    ptx::store_shared(entry_place(tile, thread_),
                      valid ? place(found.page, offset) : TokenEntry{nullptr, nullptr});
    if (!in_order())
      ptx::store_shared(position_place(tile, thread_), found.place * size.divisor + offset);
  }

  /// Starts the copies of a published tile into its stage; past the last tile there are none, and
  /// the group is empty.
  TRENCADIS_DEVICE void copy(int tile) const {
    if (tile < tiles()) {
      if (table().aligned != 0)
        copy_rows<CopyAsync>(tile);
      else
        copy_rows<CopyElements>(tile);
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
  using Tag = typename Config::Element;

  TRENCADIS_DEVICE const PageTable& table() const { return PageTable::of(shared_); }

  TRENCADIS_DEVICE bool has_token(int tile) const {
    return thread_ < Shape::kTokens && tile < tiles();
  }
  /// The calling thread's; beyond the last token, the last.
  TRENCADIS_DEVICE int storage_token(int tile) const {
    return min_of(begin_ + tile * Shape::kTokens + thread_, end_ - 1);
  }

  TRENCADIS_DEVICE TokenEntry place(int page, int token) const {
    return {
        element_at<Tag>(params_.k, page * params_.k_stride_page + token * params_.k_stride_token +
                                       block_.kv_head * params_.k_stride_head),
        element_at<Tag>(params_.v, page * params_.v_stride_page + token * params_.v_stride_token +
                                       block_.kv_head * params_.v_stride_head)};
  }

  struct CopyAsync {
    static constexpr int kUnroll = 16;
    TRENCADIS_DEVICE static void chunk(ptx::SharedAddress to, const char* from, bool valid) {
      ptx::copy_async_16(to, from, valid);
    }
  };
  /// Rows that do not begin at multiples of 16 bytes.
  struct CopyElements {
    static constexpr int kUnroll = 1;
    TRENCADIS_DEVICE static void chunk(ptx::SharedAddress to, const char* from, bool valid) {
      ptx::store_shared_16(to, valid ? load_elements_16<Tag>(from) : ptx::Bytes16{});
    }
  };

  template <class Copy>
  TRENCADIS_DEVICE void copy_rows(int tile) const {
    using Keys = typename Shape::KeyTile;
    using Values = typename Shape::ValueTile;
    const ptx::SharedAddress tokens = entry_place(tile, 0);
    const auto entry = [&](int row) {
      return ptx::load_shared<TokenEntry>(tokens + row * int(sizeof(TokenEntry)));
    };
    const ptx::SharedAddress to_keys = keys(tile);
    const ptx::SharedAddress to_values = values(tile);
    if constexpr (kColumns<Keys::kChunks> && Keys::kChunks == Values::kChunks) {
      // A thread keeps its column. Entries are read some at a time, ahead of the copies.
      constexpr int kStep = Shape::kThreads / Keys::kChunks;
      constexpr int kBatch = min_of(4, Shape::kTokens / kStep);
      const auto thread = static_cast<unsigned>(thread_);
      const int first = static_cast<int>(thread / Keys::kChunks);
      const int chunk = static_cast<int>(thread % Keys::kChunks);
#pragma unroll Copy::kUnroll
      for (int row = 0; row < Shape::kTokens; row += kBatch * kStep) {
        TokenEntry batch[kBatch];
#pragma unroll
        for (int i = 0; i < kBatch; ++i) batch[i] = entry(first + row + i * kStep);
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
          const int at = first + row + i * kStep;
          copy_chunk<Copy, Keys, Config::kHeadDimQk>(batch[i].key, to_keys, at, chunk);
          copy_chunk<Copy, Values, Config::kHeadDimVo>(batch[i].value, to_values, at, chunk);
        }
      }
    } else {
      for_chunks<Copy, Keys::kChunks>([&](int row, int chunk) {
        copy_chunk<Copy, Keys, Config::kHeadDimQk>(entry(row).key, to_keys, row, chunk);
      });
      for_chunks<Copy, Values::kChunks>([&](int row, int chunk) {
        copy_chunk<Copy, Values, Config::kHeadDimVo>(entry(row).value, to_values, row, chunk);
      });
    }
  }

  /// Whether the threads of a CTA share rows of kChunks chunks so that each keeps its column.
  template <int kChunks>
  static constexpr bool kColumns = Shape::kThreads % kChunks == 0 &&
                                   Shape::kTokens % (Shape::kThreads / kChunks) == 0;

  /// Calls visit(row, chunk) for the calling thread's share of a tile with rows of kChunks chunks.
  template <class Copy, int kChunks, class Visit>
  TRENCADIS_DEVICE void for_chunks(Visit visit) const {
    const auto thread = static_cast<unsigned>(thread_);
    if constexpr (kColumns<kChunks>) {
      constexpr int kStep = Shape::kThreads / kChunks;
      const int first = static_cast<int>(thread / kChunks);
      const int chunk = static_cast<int>(thread % kChunks);
#pragma unroll Copy::kUnroll
      for (int row = 0; row < Shape::kTokens; row += kStep) visit(first + row, chunk);
    } else {
      constexpr unsigned kAll = Shape::kTokens * kChunks;
#pragma unroll 1
      for (unsigned i = thread; i < kAll; i += unsigned{Shape::kThreads})
        visit(static_cast<int>(i / kChunks), static_cast<int>(i % kChunks));
    }
  }

  template <class Copy, class Tile, int kDim>
  TRENCADIS_DEVICE void copy_chunk(const char* from, ptx::SharedAddress to, int row,
                                   int chunk) const {
    constexpr int kUsed = kDim / Tile::kChunkElements;
    const bool valid = from != nullptr && chunk < kUsed;
    Copy::chunk(to + Tile::offset(row, chunk), from + chunk * tile::kChunkBytes, valid);
  }

  TRENCADIS_DEVICE static int stage_offset(int tile) {
    return tile % Shape::kStages * Shape::kStageBytes;
  }

  TRENCADIS_DEVICE ptx::SharedAddress entry_place(int tile, int token) const {
    return ptx::shared_place(shared_) +
           (Shape::kTokenTable + table_row(tile, token) * int(sizeof(TokenEntry)));
  }
  TRENCADIS_DEVICE ptx::SharedAddress position_place(int tile, int token) const {
    return ptx::shared_place(shared_) +
           (Shape::kPositionTable + table_row(tile, token) * int(sizeof(int)));
  }
  TRENCADIS_DEVICE static int table_row(int tile, int token) {
    return tile % Shape::kTables * Shape::kTokens + token;
  }

  const contract::AttentionParams& params_;
  const Block& block_;
  int begin_, end_;
  int thread_;
  char* shared_;
  ptx::SharedAddress tiles_;  // the ring of stages
};

}  // namespace trencadis::collective
