// Whole pages from pool to pool, on host tensors whose shapes have been checked.
#pragma once

#include <trencadis/kv_cache.h>

namespace trencadis::cpu {

/// Looks at every pair before it writes a page: throws Error(invalid_argument).
void copy_pages(const KvPool& source, const KvPool& target, const PagePairs& pairs);

}  // namespace trencadis::cpu
