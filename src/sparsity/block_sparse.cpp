#include <trencadis/block_sparse.h>

#include "base/check.h"
#include "contract/units.h"
#include "sparsity/bits.h"
#include "sparsity/checks.h"

namespace trencadis {
namespace {

using base::check;
using contract::ceil_div;

/// The logical KV range of one request, and what a block row adds to it.
struct Expansion {
  std::int64_t first_token;  // qo_indptr[request]
  std::int64_t rows, cols;   // l_q, l_kv
  std::vector<std::uint8_t> mask;
};

/// Query tokens [begin, end) of block row r, over the whole ragged q.
struct TokenRange {
  std::int64_t begin, end;
};

TokenRange tokens_of_row(const BlockSparse& matrix, IndexSpan qo_indptr, std::size_t r) {
  if (matrix.row_indptr.empty()) return {qo_indptr[r], qo_indptr[r + 1]};
  return {matrix.row_indptr[r], matrix.row_indptr[r + 1]};
}

void add_block_row(const BlockSparse& matrix, std::size_t r, TokenRange tokens, Expansion& to) {
  check(tokens.begin >= to.first_token && tokens.begin <= tokens.end &&
            tokens.end <= to.first_token + to.rows,
        "block row {} covers query tokens [{}, {}), expected them in its request's [{}, {})", r,
        tokens.begin, tokens.end, to.first_token, to.first_token + to.rows);
  const std::int64_t block = matrix.block_cols;
  const auto first = static_cast<std::size_t>(matrix.indptr[r]);
  check(ceil_div<std::int64_t>(matrix.kv_lens[r], block) <= matrix.indptr[r + 1] - matrix.indptr[r],
        "kv_lens[{}] is {}, expected at most {} blocks of {} tokens", r, matrix.kv_lens[r],
        matrix.indptr[r + 1] - matrix.indptr[r], block);
  for (std::int64_t t = 0; t < matrix.kv_lens[r]; ++t) {
    const std::int64_t column = matrix.positions.empty()
                                    ? t / block
                                    : matrix.positions[first + static_cast<std::size_t>(t / block)];
    const std::int64_t key = column * block + t % block;
    check(key < to.cols, "block row {} stores position {}, expected less than the KV length {}", r,
          key, to.cols);
    for (std::int64_t i = tokens.begin - to.first_token; i < tokens.end - to.first_token; ++i) {
      to.mask[static_cast<std::size_t>(i * to.cols + key)] = 1;
    }
  }
}

void apply_element_mask(const PackedMask& packed, std::size_t request, Expansion& to) {
  check(request + 1 < packed.indptr.size(), "mask.indptr has {} entries, expected more than {}",
        packed.indptr.size(), request + 1);
  const std::int64_t bytes = packed.indptr[request + 1] - packed.indptr[request];
  check(bytes == sparsity::bytes_of_bits(to.rows * to.cols),
        "mask of request {} has {} bytes, expected {} for [l_q, l_kv] = [{}, {}]", request, bytes,
        sparsity::bytes_of_bits(to.rows * to.cols), to.rows, to.cols);
  const std::uint8_t* bits = packed.bits.data() + packed.indptr[request];
  for (std::size_t i = 0; i < to.mask.size(); ++i) {
    if (!sparsity::get_bit(bits, static_cast<std::int64_t>(i))) to.mask[i] = 0;
  }
}

}  // namespace

BlockSparseView BlockSparse::view() const {
  BlockSparseView result;
  result.block_cols = block_cols;
  result.row_indptr = row_indptr;
  result.row_requests = row_requests;
  result.indptr = indptr;
  result.indices = indices;
  result.positions = positions;
  result.kv_lens = kv_lens;
  return result;
}

std::vector<std::uint8_t> expand(const BlockSparse& matrix, IndexSpan qo_indptr, IndexSpan kv_lens,
                                 std::int64_t request) {
  const std::size_t requests = sparsity::check_indptr("qo_indptr", qo_indptr);
  sparsity::check_count("kv_lens", kv_lens.size(), requests, "qo_indptr");
  check(request >= 0 && request < static_cast<std::int64_t>(requests),
        "request is {}, expected 0 .. {}", request, static_cast<std::int64_t>(requests) - 1);
  const auto b = static_cast<std::size_t>(request);
  Expansion result{qo_indptr[b],
                   qo_indptr[b + 1] - qo_indptr[b],
                   sparsity::narrow("kv_lens", b, kv_lens[b]),
                   {}};
  result.mask.resize(static_cast<std::size_t>(result.rows * result.cols), 0);

  const std::size_t block_rows = matrix.kv_lens.size();
  sparsity::check_count("indptr", matrix.indptr.size(), block_rows + 1, "kv_lens");
  if (matrix.row_indptr.empty()) {
    sparsity::check_count("kv_lens of the matrix", block_rows, requests, "qo_indptr");
  }
  for (std::size_t r = 0; r < block_rows; ++r) {
    const std::int64_t owner =
        matrix.row_requests.empty() ? static_cast<std::int64_t>(r) : matrix.row_requests[r];
    if (owner == request) add_block_row(matrix, r, tokens_of_row(matrix, qo_indptr, r), result);
  }
  if (matrix.mask) apply_element_mask(*matrix.mask, b, result);
  return std::move(result.mask);
}

}  // namespace trencadis
