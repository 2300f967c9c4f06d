// Tokens between rows [n, H_kv, D] and the pages of a pool: append writes pages, gather reads them.
// A row of one head and one token, key or value, is the unit of work.
#pragma once

#include "contract/append.h"
#include "cuda/collective/element_run.h"
#include "cuda/collective/row_copy.h"
#include "cuda/collective/row_walk.h"
#include "cuda/ptx/sync.h"
#include "cuda/ptx/thread.h"
#include "variant/math.h"

namespace trencadis::collective {

/// A token's place in the pool; page < 0: none.
struct TokenPlace {
  enum Absence { kSkipped = -1, kRefused = -2 };
  long long page;
  int offset;
};

/// slots[i] / P: 32 bits nearly always, and a division of 64 is a subroutine.
TRENCADIS_DEVICE TokenPlace split_slot(long long slot, int page_size) {
  if (slot <= 0xffffffffll) {
    const auto low = static_cast<unsigned>(slot);
    const unsigned page = low / static_cast<unsigned>(page_size);
    return {page, static_cast<int>(low - page * static_cast<unsigned>(page_size))};
  }
  return {slot / page_size, static_cast<int>(slot % page_size)};
}

TRENCADIS_DEVICE TokenPlace place_of(const contract::TokenPlaces& places, long long token) {
  TokenPlace place;
  if (places.slots != nullptr) {
    const long long slot = places.slots[token];
    if (slot < 0) return {TokenPlace::kSkipped, 0};
    place = split_slot(slot, places.page_size);
  } else {
    const int request = places.batch_indices[token];
    const int position = places.positions[token];
    if (request < 0 || position < 0) return {TokenPlace::kSkipped, 0};
    if (request >= places.num_requests) return {TokenPlace::kRefused, 0};
    const int block = position / places.page_size;
    const int begin = places.indptr[request];
    if (block >= places.indptr[request + 1] - begin) return {TokenPlace::kRefused, 0};
    const int entry = begin + block;
    place = {places.indices != nullptr ? places.indices[entry] : entry,
             position - block * places.page_size};
  }
  const bool exists = place.page >= 0 && place.page < places.num_pages;
  return exists ? place : TokenPlace{TokenPlace::kRefused, 0};
}

/// Keys of one row with their leading elements rotated.
template <class From, class To>
TRENCADIS_DEVICE void rotate_row(const contract::AppendRope& rope, int position, const char* from,
                                 char* to, const LaneGroup& lanes) {
  // Neighbouring lanes take neighbouring pairs, element by element: sectors are whole, and angles,
  // which cost more than the accesses, are spread over all lanes and computed once a pair.
  const int half = rope.dim / 2;
  const bool interleaved = rope.interleaved != 0;
  for (int pair = lanes.lane; pair < half; pair += lanes.width) {
    const int first = interleaved ? 2 * pair : pair;
    const int second = interleaved ? first + 1 : pair + half;
    const variant::Rotation turn = variant::rotation(position, rope.inv_freq[pair]);
    const float x = load_element<From>(from + first * Element<From>::kBytes);
    const float y = load_element<From>(from + second * Element<From>::kBytes);
    store_element<To>(to + first * Element<To>::kBytes, saturated<To>(x * turn.cos - y * turn.sin));
    store_element<To>(to + second * Element<To>::kBytes,
                      saturated<To>(y * turn.cos + x * turn.sin));
  }
}

/// The tensors of a launch, one of keys and one of values, and which rows meet.
template <class Rows, class Pages>
struct TokenTensors {
  const contract::PagedTokens& p;
  bool keys_aligned, values_aligned;

  TRENCADIS_DEVICE explicit TokenTensors(const contract::PagedTokens& tokens)
      : p(tokens),
        keys_aligned(aligned(tokens.k_rows, tokens.k_pool, tokens.head_dim_qk)),
        values_aligned(aligned(tokens.v_rows, tokens.v_pool, tokens.head_dim_vo)) {}

  TRENCADIS_DEVICE static bool aligned(const contract::TokenRows& rows,
                                       const contract::PagedRows& pages, int dim) {
    return dim % kRunElements<Rows, Pages> == 0 &&
           rows_aligned<Rows>(rows.data, rows.stride_token, rows.stride_head) &&
           rows_aligned<Pages>(pages.data, pages.stride_page, pages.stride_token,
                               pages.stride_head);
  }
  TRENCADIS_DEVICE static char* row(const contract::TokenRows& rows, long long token, int head) {
    return element_at<Rows>(rows.data, token * rows.stride_token + head * rows.stride_head);
  }
  TRENCADIS_DEVICE static char* row(const contract::PagedRows& pages, const TokenPlace& place,
                                    int head) {
    return element_at<Pages>(pages.data, place.page * pages.stride_page +
                                             place.offset * pages.stride_token +
                                             head * pages.stride_head);
  }

  /// visit(token, place, head, is_value) for every row whose token has a place.
  template <class Visit>
  TRENCADIS_DEVICE void for_each_row(const LaneGroup& lanes, Visit visit) const {
    const long long count = count_of(p.places.num_tokens, p.places.capacity);
    const int heads = p.num_kv_heads;
    for (RowWalk walk(p.head_dim_vo > 0 ? 2 * heads : heads, lanes); walk.in(count); walk.next()) {
      const long long token = walk.outer();
      if (token >= count) continue;
      const TokenPlace place = place_of(p.places, token);
      const int row = walk.inner();
      if (place.page >= 0)
        visit(token, place, row < heads ? row : row - heads, row >= heads);
      else if (place.page == TokenPlace::kRefused && row == 0 && lanes.lane == 0 &&
               p.places.num_refused != nullptr)
        ptx::atomic_add(p.places.num_refused, 1);
    }
  }
};

/// Rows to pages.
template <class From, class To>
TRENCADIS_DEVICE void append_tokens(const contract::AppendParams& params) {
  ptx::wait_for_dependencies();
  const contract::PagedTokens& p = params.tokens;
  const contract::AppendRope& rope = params.rope;
  const TokenTensors<From, To> tensors(p);
  const LaneGroup lanes = lanes_for<From, To>(p.head_dim_qk, p.head_dim_vo);
  tensors.for_each_row(lanes, [&](long long token, const TokenPlace& place, int head, bool value) {
    const char* from = tensors.row(value ? p.v_rows : p.k_rows, token, head);
    char* to = tensors.row(value ? p.v_pool : p.k_pool, place, head);
    int begin = 0;
    if (rope.inv_freq != nullptr && !value) {
      rotate_row<From, To>(rope, rope.positions[token], from, to, lanes);
      begin = rope.dim;
    }
    RowCopy<From, To>{value ? tensors.values_aligned : tensors.keys_aligned}.copy(
        from, to, begin, value ? p.head_dim_vo : p.head_dim_qk, lanes);
  });
}

/// Pages to rows; the rows of skipped tokens are left as they are.
template <class From, class To>
TRENCADIS_DEVICE void gather_tokens(const contract::PagedTokens& p) {
  ptx::wait_for_dependencies();
  const TokenTensors<To, From> tensors(p);
  const LaneGroup lanes = lanes_for<From, To>(p.head_dim_qk, p.head_dim_vo);
  tensors.for_each_row(lanes, [&](long long token, const TokenPlace& place, int head, bool value) {
    RowCopy<From, To>{value ? tensors.values_aligned : tensors.keys_aligned}.copy(
        tensors.row(value ? p.v_pool : p.k_pool, place, head),
        tensors.row(value ? p.v_rows : p.k_rows, token, head), 0,
        value ? p.head_dim_vo : p.head_dim_qk, lanes);
  });
}

}  // namespace trencadis::collective
