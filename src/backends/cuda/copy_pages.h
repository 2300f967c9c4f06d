// copy_pages on a device, for tensors that have been checked as for append_kv (append.h).
#pragma once

#include <trencadis/kv_cache.h>

namespace trencadis::cuda {

/// Throws as launch_service().
void copy_pages(const KvPool& source, const KvPool& target, const PagePairs& pairs, void* stream);

}  // namespace trencadis::cuda
