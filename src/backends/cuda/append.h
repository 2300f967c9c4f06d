// append_kv and gather_kv on a device, for tensors whose shapes, dtypes, strides and devices have
// been checked. Throw as launch_service().
#pragma once

#include <trencadis/kv_cache.h>

namespace trencadis::cuda {

void append_kv(const TensorView& k, const TensorView& v, const KvPool& pool,
               const TokenPlaces& places, const AppendOptions& options);

void gather_kv(const KvPool& pool, const TokenPlaces& places, const TensorView& k,
               const TensorView& v, void* stream);

}  // namespace trencadis::cuda
