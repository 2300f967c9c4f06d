// Tokens between rows and the pages of a pool, on host tensors whose shapes have been checked.
#pragma once

#include <trencadis/kv_cache.h>

#include <cstddef>
#include <cstdint>

namespace trencadis::cpu {

/// TokenPlaces in arrays of either width.
struct HostPlaces {
  IndexSpan batch_indices, positions, indptr, indices;
  bool indexed = false;  // by `indices`; else a page is the block's own number
  IndexSpan slots;
  bool by_slot = false;
  std::size_t tokens = 0;
  std::int64_t page_size = 0;
  std::int64_t pages = 0;
  std::int32_t* num_refused = nullptr;  // null: what has no place is an error
};

/// Throws Error(invalid_argument) where num_tokens holds no number of tokens.
HostPlaces host_places(const TokenPlaces& places, const KvPool& pool);

/// AppendRope with nothing left open.
struct HostRope {
  const float* inv_freq = nullptr;  // [dim / 2]; null: keys are stored as they come
  IndexSpan positions;
  std::int64_t dim = 0;
  bool interleaved = false;
};
HostRope host_rope(const AppendRope& rope, const TokenPlaces& places, const KvPool& pool);

/// Rows to pages. Finds every token's place before it writes one: throws Error(invalid_argument |
/// out_of_capacity).
void append_kv(const TensorView& k, const TensorView& v, const KvPool& pool,
               const HostPlaces& places, const HostRope& rope);

/// Pages to rows. Throws as append_kv.
void gather_kv(const KvPool& pool, const HostPlaces& places, const TensorView& k,
               const TensorView& v);

}  // namespace trencadis::cpu
