#include "backends/cuda/append.h"

#include <algorithm>

#include "backends/cuda/service_arguments.h"
#include "backends/cuda/service_kernels.h"
#include "contract/append.h"

namespace trencadis::cuda {
namespace {

contract::TokenPlaces places_of(const TokenPlaces& places, const KvPool& pool) {
  const bool by_slot = places.slots.defined();
  return {
      .batch_indices = places.batch_indices.data_as<const std::int32_t>(),
      .positions = places.positions.data_as<const std::int32_t>(),
      .slots = places.slots.data_as<const std::int64_t>(),
      .indptr = places.indptr.data_as<const std::int32_t>(),
      .indices = places.indices.data_as<const std::int32_t>(),
      .num_tokens = places.num_tokens.data_as<const std::int32_t>(),
      .num_refused = places.num_refused.data_as<std::int32_t>(),
      .capacity = by_slot ? places.slots.size(0) : places.batch_indices.size(0),
      .num_requests = by_slot ? 0 : count32("the number of requests", places.indptr.size(0) - 1),
      .num_pages = count32("the number of pages", pool.k.size(0)),
      .page_size = count32("P", page_size_of(pool.k, pool.layout)),
      .unused = 0};
}

contract::PagedTokens tokens_of(const TensorView& k, const TensorView& v, const KvPool& pool,
                                const TokenPlaces& places) {
  const std::int64_t heads = heads_of(pool.k, pool.layout);
  count32("twice H_kv", 2 * heads);  // rows of a token
  return {.k_rows = token_rows(k),
          .v_rows = token_rows(v),
          .k_pool = paged_rows(pool.k, pool.layout),
          .v_pool = paged_rows(pool.v, pool.layout),
          .places = places_of(places, pool),
          .num_kv_heads = count32("H_kv", heads),
          .head_dim_qk = count32("D_qk", dim_of(pool.k)),
          .head_dim_vo = count32("D_vo", dim_of(pool.v)),
          .unused = 0};
}

/// Kernels divide by the number of rows of a token.
bool is_empty(const contract::PagedTokens& tokens) {
  return tokens.places.capacity == 0 || tokens.num_kv_heads == 0;
}

/// On either side, whichever has the wider elements.
double bytes_of(const contract::PagedTokens& tokens, DType from, DType to) {
  return static_cast<double>(tokens.places.capacity) * tokens.num_kv_heads *
         (static_cast<double>(tokens.head_dim_qk) + tokens.head_dim_vo) *
         static_cast<double>(std::max(size_of(from), size_of(to)));
}

}  // namespace

void append_kv(const TensorView& k, const TensorView& v, const KvPool& pool,
               const TokenPlaces& places, const AppendOptions& options) {
  contract::AppendParams params{.tokens = tokens_of(k, v, pool, places), .rope = {}};
  if (is_empty(params.tokens)) return;
  if (options.rope) {
    const AppendRope& rope = *options.rope;
    const TensorView& positions = rope.positions.defined() ? rope.positions : places.positions;
    params.rope = {.inv_freq = rope.inv_freq.data_as<const float>(),
                   .positions = positions.data_as<const std::int32_t>(),
                   .dim = rope.dim == 0 ? params.tokens.head_dim_qk : rope.dim,
                   .interleaved = rope.interleaved ? 1 : 0};
  }
  launch_service({.service = codegen::Service::append,
                  .from = k.dtype(),
                  .to = pool.k.dtype(),
                  .ordinal = pool.k.device().index,
                  .bytes = bytes_of(params.tokens, k.dtype(), pool.k.dtype()),
                  .stream = options.stream},
                 &params);
}

void gather_kv(const KvPool& pool, const TokenPlaces& places, const TensorView& k,
               const TensorView& v, void* stream) {
  const contract::PagedTokens params = tokens_of(k, v, pool, places);
  if (is_empty(params)) return;
  launch_service({.service = codegen::Service::gather,
                  .from = pool.k.dtype(),
                  .to = k.dtype(),
                  .ordinal = pool.k.device().index,
                  .bytes = bytes_of(params, pool.k.dtype(), k.dtype()),
                  .stream = stream},
                 &params);
}

}  // namespace trencadis::cuda
