#include "serving/kv_pool.h"

namespace trencadis::app {

KvPool::KvPool(const PoolShape& shape)
    : k_("the key pool", shape.dtype,
         {shape.layers, shape.pages, shape.page_size, shape.heads, shape.head_dim}),
      v_("the value pool", shape.dtype,
         {shape.layers, shape.pages, shape.page_size, shape.heads, shape.head_dim}) {}

TokenBank::TokenBank(const char* what, DType dtype, std::int64_t max_tokens, std::int64_t heads,
                     std::int64_t head_dim, std::uint64_t seed)
    : values_(what, dtype, {max_tokens + kOffsets, heads, head_dim}) {
  fill_normal(values_.view(), seed);
}

TokenBank TokenBank::queries(const ModelShape& shape, DType dtype, std::int64_t max_tokens) {
  return {"the queries", dtype, max_tokens, shape.num_qo_heads, shape.head_dim, 1};
}

TokenBank TokenBank::keys(const ModelShape& shape, DType dtype, std::int64_t max_tokens) {
  return {"the new keys", dtype, max_tokens, shape.num_kv_heads, shape.head_dim, 2};
}

TokenBank TokenBank::values(const ModelShape& shape, DType dtype, std::int64_t max_tokens) {
  return {"the new values", dtype, max_tokens, shape.num_kv_heads, shape.head_dim, 3};
}

TensorView TokenBank::rows(std::int64_t step, int layer, std::int64_t tokens) const {
  const std::int64_t offset = (step * 1361 + layer * 613) % kOffsets;
  return values_.view().slice(0, offset, offset + tokens);
}

}  // namespace trencadis::app
