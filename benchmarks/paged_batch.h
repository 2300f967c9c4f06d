// A batch over a paged pool with permuted pages, ready for plan() and run().
#pragma once

#include <sys/mman.h>
#include <trencadis/trencadis.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <numeric>
#include <random>
#include <vector>

namespace trencadis::benchmarks {

/// Zero-filled memory in huge pages where the system has them, so that page walks, which depend on
/// the allocator of the caller, are not what is measured.
class PooledMemory {
 public:
  explicit PooledMemory(std::size_t bytes) : bytes_(bytes) {
    data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data_ == MAP_FAILED) throw std::bad_alloc();
    madvise(data_, bytes, MADV_HUGEPAGE);
  }
  ~PooledMemory() { munmap(data_, bytes_); }
  PooledMemory(const PooledMemory&) = delete;
  PooledMemory& operator=(const PooledMemory&) = delete;

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  void* data_;
  std::size_t bytes_;
};

struct BatchShape {
  Heads heads{32, 8};
  std::int64_t head_dim = 128;
  std::int64_t page_size = 16;
  DType dtype = DType::bf16;
  KvLayout layout = KvLayout::nhd;
  bool causal = false;
  std::vector<std::int32_t> qo_lens, kv_lens;
};

class PagedBatch {
 public:
  explicit PagedBatch(const BatchShape& shape)
      : shape_(shape),
        pages_(count_pages(shape)),
        qo_tokens_(std::accumulate(shape.qo_lens.begin(), shape.qo_lens.end(), std::int64_t{0})),
        k_(pool_bytes()),
        v_(pool_bytes()),
        q_(row_bytes()),
        out_(row_bytes()),
        attention_(spec(shape), config(shape)) {
    fill(k_);
    fill(v_);
    fill(q_);
    make_tables();
    attention_.plan(qo_indptr_, kv_indptr_, kv_indices_, shape_.kv_lens);
    args_.q = rows(q_);
    args_.out = rows(out_);
    args_.k = pool(k_);
    args_.v = pool(v_);
  }

  void run() { attention_.run(args_); }

  const Attention& attention() const { return attention_; }
  /// Bytes of keys and values that a run must read.
  std::int64_t kv_bytes() const {
    const std::int64_t tokens =
        std::accumulate(shape_.kv_lens.begin(), shape_.kv_lens.end(), std::int64_t{0});
    return 2 * tokens * shape_.heads.kv * shape_.head_dim * size_of(shape_.dtype);
  }
  /// Multiplications and additions of QK^T and PV over the visible keys.
  double flops() const {
    double pairs = 0;
    for (std::size_t b = 0; b < shape_.kv_lens.size(); ++b) {
      const double q = shape_.qo_lens[b], k = shape_.kv_lens[b];
      pairs += shape_.causal ? q * (k - q) + q * (q + 1) / 2 : q * k;
    }
    return 4.0 * pairs * shape_.heads.qo * static_cast<double>(shape_.head_dim);
  }

 private:
  static AttentionSpec spec(const BatchShape& shape) {
    AttentionSpec spec;
    spec.head_dim_qk = static_cast<int>(shape.head_dim);
    spec.dtype_q = spec.dtype_kv = spec.dtype_o = shape.dtype;
    spec.variant = variants::softmax({.causal = shape.causal});
    return spec;
  }
  static AttentionConfig config(const BatchShape& shape) {
    AttentionConfig config;
    config.heads = shape.heads;
    config.page_size = shape.page_size;
    config.layout = shape.layout;
    config.backend = BackendKind::cpu;
    return config;
  }
  static std::int64_t count_pages(const BatchShape& shape) {
    std::int64_t pages = 0;
    for (const std::int64_t length : shape.kv_lens)
      pages += (length + shape.page_size - 1) / shape.page_size;
    return pages;
  }
  std::size_t pool_bytes() const {
    return static_cast<std::size_t>(pages_ * shape_.page_size * shape_.heads.kv * shape_.head_dim *
                                    size_of(shape_.dtype));
  }
  std::size_t row_bytes() const {
    return static_cast<std::size_t>(qo_tokens_ * shape_.heads.qo * shape_.head_dim *
                                    size_of(shape_.dtype));
  }

  /// Small numbers of either sign: bit patterns whose exponent is cut to a few values.
  void fill(const PooledMemory& memory) const {
    std::mt19937 random(1);
    if (shape_.dtype == DType::f32) {
      std::uniform_real_distribution<float> uniform(-1, 1);
      std::generate_n(static_cast<float*>(memory.data()), memory.bytes() / 4,
                      [&] { return uniform(random); });
      return;
    }
    const std::uint16_t exponent = shape_.dtype == DType::bf16 ? 0x3F00 : 0x3800;  // 0.5
    std::generate_n(static_cast<std::uint16_t*>(memory.data()), memory.bytes() / 2,
                    [&] { return static_cast<std::uint16_t>((random() & 0x807F) | exponent); });
  }

  void make_tables() {
    qo_indptr_ = kv_indptr_ = {0};
    for (std::size_t b = 0; b < shape_.kv_lens.size(); ++b) {
      qo_indptr_.push_back(qo_indptr_.back() + shape_.qo_lens[b]);
      const auto page = static_cast<std::int32_t>(shape_.page_size);
      kv_indptr_.push_back(kv_indptr_.back() + (shape_.kv_lens[b] + page - 1) / page);
    }
    kv_indices_.resize(static_cast<std::size_t>(pages_));
    std::iota(kv_indices_.begin(), kv_indices_.end(), 0);
    std::shuffle(kv_indices_.begin(), kv_indices_.end(), std::mt19937(2));
  }

  TensorView rows(const PooledMemory& memory) const {
    return {memory.data(), shape_.dtype, {qo_tokens_, shape_.heads.qo, shape_.head_dim}};
  }
  TensorView pool(const PooledMemory& memory) const {
    const std::int64_t heads = shape_.heads.kv;
    return shape_.layout == KvLayout::nhd
               ? TensorView(memory.data(), shape_.dtype,
                            {pages_, shape_.page_size, heads, shape_.head_dim})
               : TensorView(memory.data(), shape_.dtype,
                            {pages_, heads, shape_.page_size, shape_.head_dim});
  }

  BatchShape shape_;
  std::int64_t pages_;
  std::int64_t qo_tokens_;
  PooledMemory k_, v_, q_, out_;
  std::vector<std::int32_t> qo_indptr_, kv_indptr_, kv_indices_;
  Attention attention_;
  RunArgs args_;
};

}  // namespace trencadis::benchmarks
