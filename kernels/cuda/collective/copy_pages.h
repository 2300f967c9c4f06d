// Whole pages from pool to pool, or from place to place in one: sharing that ends, swapping,
// defragmentation. The layouts may differ.
#pragma once

#include "contract/append.h"
#include "cuda/collective/element_run.h"
#include "cuda/collective/row_copy.h"
#include "cuda/collective/row_walk.h"
#include "cuda/ptx/sync.h"
#include "cuda/ptx/thread.h"

namespace trencadis::collective {

template <class From, class To>
TRENCADIS_DEVICE bool pages_aligned(const contract::PagedRows& from, const contract::PagedRows& to,
                                    int dim) {
  return dim % kRunElements<From, To> == 0 &&
         rows_aligned<From>(from.data, from.stride_page, from.stride_token, from.stride_head) &&
         rows_aligned<To>(to.data, to.stride_page, to.stride_token, to.stride_head);
}

template <class Tag>
TRENCADIS_DEVICE char* page_row(const contract::PagedRows& pages, long long page, int token,
                                int head) {
  return element_at<Tag>(
      pages.data, page * pages.stride_page + token * pages.stride_token + head * pages.stride_head);
}

/// The row of one token and one head is the unit of work, keys and values together.
template <class From, class To>
TRENCADIS_DEVICE void copy_pages(const contract::CopyPagesParams& p) {
  ptx::wait_for_dependencies();
  const RowCopy<From, To> keys{pages_aligned<From, To>(p.k_from, p.k_to, p.head_dim_qk)};
  const RowCopy<From, To> values{pages_aligned<From, To>(p.v_from, p.v_to, p.head_dim_vo)};
  const bool one_pool = p.k_from.data == p.k_to.data;
  const LaneGroup lanes = lanes_for<From, To>(p.head_dim_qk, p.head_dim_vo);
  const long long count = count_of(p.num_pairs, p.capacity);
  for (RowWalk walk(p.page_size * p.num_kv_heads, lanes); walk.in(count); walk.next()) {
    const long long pair = walk.outer();
    if (pair >= count) continue;
    const long long from = p.from[pair];
    const long long to = p.to[pair];
    if (from < 0 || to < 0 || (one_pool && from == to)) continue;
    if (from >= p.from_pages || to >= p.to_pages) {
      if (walk.inner() == 0 && lanes.lane == 0 && p.num_refused != nullptr)
        ptx::atomic_add(p.num_refused, 1);
      continue;
    }
    const int token = walk.inner() / p.num_kv_heads;
    const int head = walk.inner() % p.num_kv_heads;
    keys.copy(page_row<From>(p.k_from, from, token, head), page_row<To>(p.k_to, to, token, head), 0,
              p.head_dim_qk, lanes);
    values.copy(page_row<From>(p.v_from, from, token, head), page_row<To>(p.v_to, to, token, head),
                0, p.head_dim_vo, lanes);
  }
}

}  // namespace trencadis::collective
