// Tensors as the kernels of tokens, pages and merges take them.
#pragma once

#include <trencadis/attention.h>
#include <trencadis/tensor_view.h>

#include <cstdint>
#include <limits>

#include "base/check.h"
#include "contract/append.h"

namespace trencadis::cuda {

/// Kernels count heads, dims, pages and requests in 32 bits.
inline std::int32_t count32(const char* what, std::int64_t count) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (count > kMost)
    base::fail(ErrorKind::not_supported, "{} is {}, CUDA kernels count to {}", what, count, kMost);
  return static_cast<std::int32_t>(count);
}

/// Zeros where there are no values.
inline contract::TokenRows token_rows(const TensorView& rows) {
  if (!rows.defined()) return {};
  return {.data = rows.data(), .stride_token = rows.stride(0), .stride_head = rows.stride(1)};
}

inline contract::PagedRows paged_rows(const TensorView& pool, KvLayout layout) {
  if (!pool.defined()) return {};
  const int token = layout == KvLayout::nhd ? 1 : 2;
  return {.data = pool.data(),
          .stride_page = pool.stride(0),
          .stride_token = pool.stride(token),
          .stride_head = pool.stride(3 - token)};
}

inline std::int64_t page_size_of(const TensorView& pool, KvLayout layout) {
  return pool.size(layout == KvLayout::nhd ? 1 : 2);
}

inline std::int64_t heads_of(const TensorView& pool, KvLayout layout) {
  return pool.size(layout == KvLayout::nhd ? 2 : 1);
}

/// 0: there are no values.
inline std::int64_t dim_of(const TensorView& pool) {
  return pool.defined() ? pool.size(3) : 0;
}

}  // namespace trencadis::cuda
