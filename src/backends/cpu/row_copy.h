// Rows of keys and values from one host tensor to another, and pools in either layout.
#pragma once

#include <trencadis/attention.h>
#include <trencadis/tensor_view.h>

#include <cstdint>
#include <span>
#include <vector>

namespace trencadis::cpu {

/// Pages in either layout as [pages, P, H_kv, D].
struct PagedRows {
  PagedRows(const TensorView& pool, KvLayout layout)
      : tensor(pool),
        page_size(pool.size(layout == KvLayout::nhd ? 1 : 2)),
        heads(pool.size(layout == KvLayout::nhd ? 2 : 1)),
        token_stride(pool.stride(layout == KvLayout::nhd ? 1 : 2)),
        head_stride(pool.stride(layout == KvLayout::nhd ? 2 : 1)) {}

  char* row(std::int64_t page, std::int64_t token, std::int64_t head) const {
    return static_cast<char*>(tensor.data()) +
           (page * tensor.stride(0) + token * token_stride + head * head_stride) *
               size_of(tensor.dtype());
  }

  const TensorView& tensor;
  std::int64_t page_size, heads, token_stride, head_stride;
};

/// Copies last dimensions of `from` into those of `to`, which have as many elements. Values of one
/// dtype keep their bits; others are rounded to nearest even and saturate, and a NaN stays one.
class RowCopy {
 public:
  RowCopy(const TensorView& from, const TensorView& to);

  /// Elements [begin, D) of a row.
  void copy(const char* from, char* to, std::int64_t begin = 0);

  /// These are elements [0, values.size()) of a row of `to`.
  void store(std::span<float> values, char* to) const;

 private:
  void copy_bits(const char* from, char* to, std::int64_t count) const;

  const TensorView& from_;
  const TensorView& to_;
  float limit_;  // the largest finite value of `to`
  std::vector<float> buffer_;
};

}  // namespace trencadis::cpu
