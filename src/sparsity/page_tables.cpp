// Page tables and contiguous buffers: one block row a request, every query row sees every key.
#include <trencadis/block_sparse.h>

#include "base/check.h"
#include "contract/units.h"
#include "sparsity/checks.h"

namespace trencadis {
namespace {

using base::check;
using contract::ceil_div;
using sparsity::check_block;
using sparsity::check_count;
using sparsity::check_indptr;
using sparsity::narrow;

/// Entries [first, first + available) of `indices` as the next block row. Only the entries that
/// hold tokens are read and kept: a table may carry spare pages, whose ids mean nothing yet.
void append_row(BlockSparse& matrix, std::string_view name, IndexSpan indices, std::size_t first,
                std::int64_t available, std::int32_t kv_len) {
  const std::int64_t used = ceil_div<std::int64_t>(kv_len, matrix.block_cols);
  check(used <= available, "kv_lens[{}] is {}, expected at most {}: {} pages of {} tokens",
        matrix.kv_lens.size(), kv_len, available * matrix.block_cols, available, matrix.block_cols);
  for (std::size_t i = first; i < first + static_cast<std::size_t>(used); ++i) {
    matrix.indices.push_back(narrow(name, i, indices[i]));
  }
  matrix.indptr.push_back(
      narrow("indptr", matrix.indptr.size(), static_cast<std::int64_t>(matrix.indices.size())));
  matrix.kv_lens.push_back(kv_len);
}

BlockSparse empty_table(std::int64_t page_size, std::size_t requests) {
  check_block("page_size", page_size);
  BlockSparse matrix;
  matrix.block_cols = page_size;
  matrix.indptr.reserve(requests + 1);
  matrix.indptr.push_back(0);
  matrix.kv_lens.reserve(requests);
  return matrix;
}

std::size_t check_table(IndexSpan indptr, IndexSpan indices) {
  const std::size_t requests = check_indptr("indptr", indptr);
  check(static_cast<std::int64_t>(indices.size()) >= indptr[requests],
        "indices has {} entries, expected at least indptr[{}] = {}", indices.size(), requests,
        indptr[requests]);
  return requests;
}

}  // namespace

BlockSparse from_page_table(IndexSpan indptr, IndexSpan indices, IndexSpan kv_lens,
                            std::int64_t page_size) {
  const std::size_t requests = check_table(indptr, indices);
  check_count("kv_lens", kv_lens.size(), requests, "indptr");
  BlockSparse matrix = empty_table(page_size, requests);
  for (std::size_t b = 0; b < requests; ++b) {
    append_row(matrix, "indices", indices, static_cast<std::size_t>(indptr[b]),
               indptr[b + 1] - indptr[b], narrow("kv_lens", b, kv_lens[b]));
  }
  return matrix;
}

BlockSparse from_last_page_lens(IndexSpan indptr, IndexSpan indices, IndexSpan last_page_lens,
                                std::int64_t page_size) {
  const std::size_t requests = check_table(indptr, indices);
  check_count("last_page_lens", last_page_lens.size(), requests, "indptr");
  BlockSparse matrix = empty_table(page_size, requests);
  for (std::size_t b = 0; b < requests; ++b) {
    const std::int64_t pages = indptr[b + 1] - indptr[b];
    const std::int64_t last = last_page_lens[b];
    // A request without pages has no last page; engines write 0, 1 or a stale fill there.
    if (pages > 0) {
      check(last >= 1 && last <= page_size, "last_page_lens[{}] is {}, expected 1 .. {}", b, last,
            page_size);
    }
    const std::int64_t kv_len = pages == 0 ? 0 : (pages - 1) * page_size + last;
    append_row(matrix, "indices", indices, static_cast<std::size_t>(indptr[b]), pages,
               narrow("KV length of request", b, kv_len));
  }
  return matrix;
}

BlockSparse from_padded_table(IndexSpan table, std::int64_t max_pages, IndexSpan kv_lens,
                              std::int64_t page_size) {
  const std::size_t requests = kv_lens.size();
  check(max_pages >= 0, "max_pages is {}, expected 0 or more", max_pages);
  const auto width = static_cast<std::size_t>(max_pages);
  check(
      requests == 0 || (width == 0 ? table.empty()
                                   : table.size() % width == 0 && table.size() / width == requests),
      "table has {} entries, expected {} requests x {} pages", table.size(), requests, max_pages);
  BlockSparse matrix = empty_table(page_size, requests);
  for (std::size_t b = 0; b < requests; ++b) {
    append_row(matrix, "table", table, b * width, max_pages, narrow("kv_lens", b, kv_lens[b]));
  }
  return matrix;
}

BlockSparse from_ragged(IndexSpan kv_indptr) {
  const std::size_t requests = check_indptr("kv_indptr", kv_indptr);
  BlockSparse matrix = empty_table(1, requests);
  for (std::size_t b = 0; b < requests; ++b) {
    matrix.indptr.push_back(static_cast<std::int32_t>(kv_indptr[b + 1]));
    matrix.kv_lens.push_back(matrix.indptr[b + 1] - matrix.indptr[b]);
  }
  return matrix;
}

}  // namespace trencadis
