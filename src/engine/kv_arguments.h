// Checks what the functions of kv_cache.h are given, as far as shapes, dtypes, strides and devices
// tell: on a GPU that is all that can be checked without waiting for it.
#pragma once

#include <trencadis/kv_cache.h>

#include <cstdint>

namespace trencadis::engine {

/// What messages call the tensors.
struct KvNames {
  const char* k = "k";
  const char* v = "v";
  const char* pool_k = "pool.k";
  const char* pool_v = "pool.v";
};

/// Rows of keys and values, or of keys alone, and their pool, all on the device of pool.k. Throws
/// Error(invalid_argument | type_mismatch), as all of this header.
void check_tokens(const KvNames& names, const TensorView& k, const TensorView& v,
                  const KvPool& pool, std::int64_t tokens);

/// Returns the capacity: tokens that there are places for.
std::int64_t check_places(const TokenPlaces& places, Device device);

/// head_dim: D_qk; tokens: as check_places() returns.
void check_rope(const AppendRope& rope, const TokenPlaces& places, std::int64_t head_dim,
                std::int64_t tokens, Device device);

void check_pages(const KvPool& source, const KvPool& target, const PagePairs& pairs);

}  // namespace trencadis::engine
