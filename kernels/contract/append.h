// Arguments of the kernels that move tokens and pages: append, gather, copy. Strides are in
// elements and 64-bit; the last dimension is contiguous. Nothing here depends on the lengths of a
// step: counts are read from device memory, so that a captured graph replays with others.
#pragma once

#include <cstdint>

namespace trencadis::contract {

/// [tokens, H_kv, D]
struct TokenRows {
  void* data;
  std::int64_t stride_token, stride_head;
};
static_assert(sizeof(TokenRows) == 24);

/// Pages of P tokens in any layout.
struct PagedRows {
  void* data;
  std::int64_t stride_page, stride_token, stride_head;
};
static_assert(sizeof(PagedRows) == 32);

/// Where tokens 0 .. count lie in the pages: token i is position positions[i] of request
/// batch_indices[i], or, where `slots` is given, token slots[i] % P of page slots[i] / P. A token
/// with a negative number is skipped.
struct TokenPlaces {
  const std::int32_t* batch_indices;  // [capacity]
  const std::int32_t* positions;      // [capacity]
  const std::int64_t* slots;          // [capacity] or null
  const std::int32_t* indptr;         // [num_requests + 1] blocks of each request; not with slots
  const std::int32_t* indices;        // [nnz] page of each block; null: the block's own number
  const std::int32_t* num_tokens;     // [1], at most `capacity`; null: `capacity`
  /// [1] or null. Grows by the number of tokens that name a request, block or page that does not
  /// exist; they are skipped.
  std::int32_t* num_refused;
  std::int64_t capacity;
  std::int32_t num_requests;
  std::int32_t num_pages;
  std::int32_t page_size;  // P
  std::int32_t unused;
};
static_assert(sizeof(TokenPlaces) == 80);

/// Tokens in rows and in pages: append reads the rows, gather writes them.
struct PagedTokens {
  TokenRows k_rows, v_rows;
  PagedRows k_pool, v_pool;
  TokenPlaces places;
  std::int32_t num_kv_heads;
  std::int32_t head_dim_qk;
  std::int32_t head_dim_vo;  // 0: there are no values
  std::int32_t unused;
};
static_assert(sizeof(PagedTokens) == 2 * 24 + 2 * 32 + 80 + 16);

/// Rotation of keys on their way in; variant/rope.h has its meaning.
struct AppendRope {
  const float* inv_freq;          // [dim / 2]; null: keys are stored as they come
  const std::int32_t* positions;  // [capacity]
  std::int32_t dim;               // leading elements that rotate: even, at most D_qk
  std::int32_t interleaved;       // 1: pairs are (2d, 2d + 1); 0: (d, d + dim / 2)
};
static_assert(sizeof(AppendRope) == 24);

struct AppendParams {
  PagedTokens tokens;
  AppendRope rope;
};
static_assert(sizeof(AppendParams) == 208 + 24);

/// Page from[i] of one pool becomes page to[i] of another, which may be the same pool: then no page
/// is both read and written, but for from[i] == to[i], which is nothing. A negative number skips
/// the pair; equal pairs may occur more than once.
struct CopyPagesParams {
  PagedRows k_from, v_from;
  PagedRows k_to, v_to;
  const std::int32_t* from;       // [capacity]
  const std::int32_t* to;         // [capacity]
  const std::int32_t* num_pairs;  // [1], at most `capacity`; null: `capacity`
  std::int32_t* num_refused;  // [1] or null; grows by the pairs beyond a pool, which are skipped
  std::int64_t capacity;
  std::int32_t from_pages, to_pages;  // pages of each pool
  std::int32_t page_size;
  std::int32_t num_kv_heads;
  std::int32_t head_dim_qk;
  std::int32_t head_dim_vo;  // 0: there are no values
};
static_assert(sizeof(CopyPagesParams) == 4 * 32 + 40 + 24);

}  // namespace trencadis::contract
