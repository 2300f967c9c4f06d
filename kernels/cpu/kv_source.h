// Where the keys and values of a block row lie: the one collaborator in which paged, contiguous and
// gathered storage differ. The main loop asks for a tile and gets a pointer a token.
#pragma once

#include <algorithm>
#include <cstdint>

#include "contract/params.h"
#include "cpu/microkernels.h"

namespace trencadis::cpu {

/// The largest tile that the main loop works on, in query rows and in tokens.
inline constexpr int kMaxTileRows = 128;
inline constexpr int kMaxTileKeys = 128;

/// Storage tokens [begin, begin + count) of a block row.
struct KvTile {
  int begin = 0;
  int count = 0;
  const void* keys[kMaxTileKeys];
  const void* values[kMaxTileKeys];
};

class KvSource {
 public:
  KvSource(const contract::AttentionParams& params, int block_row, int kv_head)
      : bsr_(params.kv),
        first_block_(params.kv.indptr[block_row]),
        keys_(pool_of(params.k, params.kv_type, params.k_stride_page, params.k_stride_token,
                      params.k_stride_head, kv_head)),
        values_(pool_of(params.v, params.kv_type, params.v_stride_page, params.v_stride_token,
                        params.v_stride_head, kv_head)) {}

  /// Fills `tile` with tokens [begin, end); end - begin <= kMaxTileKeys.
  void locate(int begin, int end, KvTile& tile) const {
    tile.begin = begin;
    tile.count = end - begin;
    int i = 0;
    for_each_run(begin, end, [&](std::int64_t entry, std::int64_t offset, int run) {
      const std::int64_t block = bsr_.indices != nullptr ? bsr_.indices[entry] : entry;
      const char* key = keys_.base + block * keys_.page + offset * keys_.token;
      const char* value = values_.base + block * values_.page + offset * values_.token;
      for (const int stop = i + run; i < stop; ++i, key += keys_.token, value += values_.token) {
        tile.keys[i] = key;
        tile.values[i] = value;
      }
    });
  }

  /// Logical position of each token of [begin, end), ascending.
  void positions(int begin, int end, int* out) const {
    for_each_run(begin, end, [&](std::int64_t entry, std::int64_t offset, int run) {
      const std::int64_t column =
          bsr_.positions != nullptr ? bsr_.positions[entry] : entry - first_block_;
      const auto first = static_cast<int>(column * bsr_.block_cols + offset);
      for (int j = 0; j < run; ++j) *out++ = first + j;
    });
  }

  /// Bytes from a row of one head to the same token's row of the next.
  std::int64_t key_head_bytes() const { return keys_.head; }
  std::int64_t value_head_bytes() const { return values_.head; }
  /// True where the heads of a token are nearer than the tokens of a head.
  bool heads_adjacent() const { return keys_.head <= keys_.token; }

  /// True where a token's logical position is its index in the storage.
  bool in_order() const { return bsr_.positions == nullptr; }

 private:
  /// One head of a pool; strides in bytes.
  struct Pool {
    const char* base;
    std::int64_t page, token, head;
  };

  static Pool pool_of(const void* data, contract::Storage type, std::int64_t page,
                      std::int64_t token, std::int64_t head, int kv_head) {
    const std::int64_t bytes = size_of(type);
    return {static_cast<const char*>(data) + kv_head * head * bytes, page * bytes, token * bytes,
            head * bytes};
  }

  /// Calls fn(entry of `indices`, token in the block, tokens) for each block that [begin, end)
  /// cuts.
  template <class Fn>
  void for_each_run(std::int64_t begin, std::int64_t end, Fn fn) const {
    std::int64_t entry = first_block_ + begin / bsr_.block_cols;
    std::int64_t offset = begin % bsr_.block_cols;
    while (begin < end) {
      const std::int64_t run = std::min(bsr_.block_cols - offset, end - begin);
      fn(entry, offset, static_cast<int>(run));
      begin += run;
      ++entry;
      offset = 0;
    }
  }

  contract::BsrParams bsr_;
  std::int64_t first_block_;
  Pool keys_, values_;
};

}  // namespace trencadis::cpu
