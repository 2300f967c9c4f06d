// New tokens into the pages of a pool, and tokens of a pool into rows.
#pragma once

#include "contract/append.h"
#include "cuda/collective/append.h"

namespace trencadis::entry {

template <class From, class To>
TRENCADIS_DEVICE void append(const contract::AppendParams& params) {
  collective::append_tokens<From, To>(params);
}

template <class From, class To>
TRENCADIS_DEVICE void gather(const contract::PagedTokens& params) {
  collective::gather_tokens<From, To>(params);
}

}  // namespace trencadis::entry
