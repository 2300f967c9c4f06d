// Writing new keys and values into the pages of a pool, on host tensors.
#include <trencadis/kv_cache.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <vector>

#include "backends/cpu/host_tensor.h"
#include "base/check.h"

namespace trencadis {
namespace {

/// The largest finite value: conversions saturate there.
float largest_finite(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return 65504.0f;
    case DType::bf16:
      return 0x1.FEp127f;
    default:
      return std::numeric_limits<float>::max();
  }
}

/// A pool in either layout as [pages, P, H_kv, D].
struct PagedPool {
  PagedPool(const char* name, const TensorView& pool, KvLayout layout) : tensor(pool) {
    cpu::expect_floating(name, pool);
    base::check(pool.rank() == 4, "{} is {}, expected rank 4: {}", name, pool,
                layout == KvLayout::nhd ? "[pages, P, H_kv, D]" : "[pages, H_kv, P, D]");
    const int token_dim = layout == KvLayout::nhd ? 1 : 2;
    page_size = pool.size(token_dim);
    heads = pool.size(3 - token_dim);
    token_stride = pool.stride(token_dim);
    head_stride = pool.stride(3 - token_dim);
  }

  char* row(std::int64_t page, std::int64_t offset, std::int64_t head) const {
    return static_cast<char*>(tensor.data()) +
           (page * tensor.stride(0) + offset * token_stride + head * head_stride) *
               size_of(tensor.dtype());
  }

  const TensorView& tensor;
  std::int64_t page_size, heads, token_stride, head_stride;
};

/// New rows [n, H_kv, D] on their way into a pool.
class RowWriter {
 public:
  RowWriter(const char* name, const TensorView& rows, const PagedPool& pool, std::int64_t tokens)
      : rows_(rows), pool_(pool), limit_(largest_finite(pool.tensor.dtype())) {
    cpu::expect_floating(name, rows);
    const std::array expected{tokens, pool.heads, pool.tensor.size(3)};
    cpu::expect_tensor(name, rows, rows.dtype(), expected);
    buffer_.resize(static_cast<std::size_t>(expected[2]));
    same_bits_ =
        rows.dtype() == pool.tensor.dtype() && rows.stride(2) == 1 && pool.tensor.stride(3) == 1;
  }

  void write(std::int64_t token, std::int64_t page, std::int64_t offset) {
    for (std::int64_t h = 0; h < pool_.heads; ++h) {
      const char* from = cpu::at(rows_, token, h);
      char* to = pool_.row(page, offset, h);
      if (same_bits_) {
        std::memcpy(to, from, buffer_.size() * static_cast<std::size_t>(size_of(rows_.dtype())));
        continue;
      }
      cpu::load_row(rows_, from, buffer_);
      // A NaN fails both comparisons and stays one.
      if (rows_.dtype() != pool_.tensor.dtype())
        for (float& value : buffer_)
          value = value > limit_ ? limit_ : value < -limit_ ? -limit_ : value;
      cpu::store_row(pool_.tensor, buffer_, to);
    }
  }

 private:
  const TensorView& rows_;
  const PagedPool& pool_;
  float limit_;
  bool same_bits_ = false;
  std::vector<float> buffer_;
};

/// Where token i goes.
struct Destination {
  bool skipped = false;
  std::int64_t page = 0;
  std::int64_t offset = 0;
};

Destination find(std::size_t i, IndexSpan batch_indices, IndexSpan positions,
                 const BlockSparseView& table, std::int64_t pages) {
  const std::int64_t request = batch_indices[i];
  const std::int64_t position = positions[i];
  if (request < 0 || position < 0) return {.skipped = true};
  const auto requests = static_cast<std::int64_t>(table.indptr.size()) - 1;
  base::check(request < requests, "batch_indices[{}] is {}, expected less than the {} requests", i,
              request, requests);
  const std::int64_t begin = table.indptr[static_cast<std::size_t>(request)];
  const std::int64_t owned = table.indptr[static_cast<std::size_t>(request) + 1] - begin;
  const std::int64_t block = position / table.block_cols;
  if (block >= owned)
    base::fail(
        ErrorKind::out_of_capacity,
        "positions[{}] is {} and needs page {} of request {}, which has {} pages of {} tokens", i,
        position, block, request, owned, table.block_cols);
  const std::int64_t entry = begin + block;
  base::check(table.indices.empty() || entry < static_cast<std::int64_t>(table.indices.size()),
              "indptr[{}] reaches entry {} of indices, which has {}", request, entry,
              table.indices.size());
  const std::int64_t page =
      table.indices.empty() ? entry : table.indices[static_cast<std::size_t>(entry)];
  base::check(page >= 0 && page < pages, "indices[{}] is {}, expected a page of the pool, 0 to {}",
              entry, page, pages - 1);
  return {.page = page, .offset = position % table.block_cols};
}

void expect_table(const BlockSparseView& table, const PagedPool& k, const PagedPool& v) {
  base::check(k.page_size == table.block_cols, "k_pool has pages of {} tokens, the table's are {}",
              k.page_size, table.block_cols);
  base::check(
      v.page_size == k.page_size && v.heads == k.heads && v.tensor.size(0) == k.tensor.size(0),
      "v_pool is {}, expected the pages, page size and heads of k_pool, {}", v.tensor, k.tensor);
  base::check(table.block_cols > 0, "the table's block_cols is {}, expected 1 or more",
              table.block_cols);
  for (std::size_t r = 1; r < table.indptr.size(); ++r)
    base::check(table.indptr[r] >= table.indptr[r - 1],
                "the table's indptr[{}] is {}, expected at least indptr[{}] = {}", r,
                table.indptr[r], r - 1, table.indptr[r - 1]);
  base::check(!table.indptr.empty(), "the table's indptr is empty, expected [requests + 1]");
  base::check(
      table.row_requests.empty() && table.positions.empty(),
      "the table lists blocks by row and position; expected a page table, one row a request");
}

}  // namespace

void append_kv(const TensorView& k_new, const TensorView& v_new, IndexSpan batch_indices,
               IndexSpan positions, const TensorView& k_pool, const TensorView& v_pool,
               const BlockSparseView& table, KvLayout layout) {
  const PagedPool k("k_pool", k_pool, layout);
  const PagedPool v("v_pool", v_pool, layout);
  expect_table(table, k, v);
  const std::size_t tokens = batch_indices.size();
  base::check(positions.size() == tokens, "positions has {} entries, batch_indices {}",
              positions.size(), tokens);
  RowWriter keys("k_new", k_new, k, static_cast<std::int64_t>(tokens));
  RowWriter values("v_new", v_new, v, static_cast<std::int64_t>(tokens));

  // All are found before any is written.
  std::vector<Destination> destinations;
  destinations.reserve(tokens);
  for (std::size_t i = 0; i < tokens; ++i)
    destinations.push_back(find(i, batch_indices, positions, table, k_pool.size(0)));
  for (std::size_t i = 0; i < tokens; ++i) {
    const Destination& to = destinations[i];
    if (to.skipped) continue;
    keys.write(static_cast<std::int64_t>(i), to.page, to.offset);
    values.write(static_cast<std::int64_t>(i), to.page, to.offset);
  }
}

}  // namespace trencadis
