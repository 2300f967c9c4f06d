// What a server keeps in memory: the KV pages of every layer, and the stand-in for the model that
// would compute queries, keys and values.
#pragma once

#include <cstdint>

#include "serving/host_tensor.h"
#include "serving/models.h"

namespace trencadis::app {

struct PoolShape {
  std::int64_t layers = 1;
  std::int64_t pages = 1;
  std::int64_t page_size = 16;
  std::int64_t heads = 1;
  std::int64_t head_dim = 64;
  DType dtype = DType::bf16;

  /// Keys and values of one token in every layer.
  std::int64_t bytes_per_token() const { return 2 * layers * heads * head_dim * size_of(dtype); }
};

/// Keys and values [layers, pages, P, H_kv, D]. All NaN at first and never cleared, so whoever
/// reads a token that its request does not own sees it in the output.
class KvPool {
 public:
  /// Throws Error(out_of_capacity).
  explicit KvPool(const PoolShape& shape);

  TensorView keys(int layer) const { return k_.view().select(0, layer); }
  TensorView values(int layer) const { return v_.view().select(0, layer); }
  std::int64_t bytes() const {
    return (k_.view().num_elements() + v_.view().num_elements()) * size_of(k_.view().dtype());
  }

 private:
  HostTensor k_, v_;
};

/// Normal deviates for the tokens of a step. Drawn once; each step and layer reads them from
/// another offset, because drawing afresh would take longer than the attention that is measured.
class TokenBank {
 public:
  TokenBank(const char* what, DType dtype, std::int64_t max_tokens, std::int64_t heads,
            std::int64_t head_dim, std::uint64_t seed);

  /// Of a model, with values of their own.
  static TokenBank queries(const ModelShape& shape, DType dtype, std::int64_t max_tokens);
  static TokenBank keys(const ModelShape& shape, DType dtype, std::int64_t max_tokens);
  static TokenBank values(const ModelShape& shape, DType dtype, std::int64_t max_tokens);

  /// [tokens, heads, head_dim], tokens <= max_tokens; the same for the same step and layer.
  TensorView rows(std::int64_t step, int layer, std::int64_t tokens) const;

 private:
  // A prime, so that the offsets of successive steps and layers visit all of them.
  static constexpr std::int64_t kOffsets = 4093;

  HostTensor values_;
};

}  // namespace trencadis::app
