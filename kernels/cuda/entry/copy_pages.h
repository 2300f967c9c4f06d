// Pages from pool to pool, or inside of one.
#pragma once

#include "contract/append.h"
#include "cuda/collective/copy_pages.h"

namespace trencadis::entry {

template <class From, class To>
TRENCADIS_DEVICE void copy_pages(const contract::CopyPagesParams& params) {
  collective::copy_pages<From, To>(params);
}

}  // namespace trencadis::entry
