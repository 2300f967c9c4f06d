// Boolean and block masks of one request over contiguous KV, and packed masks of many requests.
#include <trencadis/block_sparse.h>

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "contract/units.h"
#include "sparsity/bits.h"
#include "sparsity/checks.h"

namespace trencadis {
namespace {

using base::check;
using base::fail;
using contract::ceil_div;
using sparsity::check_block;
using sparsity::check_count;
using sparsity::check_indptr;
using sparsity::narrow;

struct Range {
  std::int64_t begin;
  std::int64_t end;
};

/// [rows, cols] cut into blocks; the last ones may be smaller.
struct Grid {
  std::int64_t rows, cols;
  std::int64_t block_rows, block_cols;

  std::int64_t row_blocks() const { return ceil_div(rows, block_rows); }
  std::int64_t col_blocks() const { return ceil_div(cols, block_cols); }
  Range row_range(std::int64_t r) const {
    return {r * block_rows, std::min(rows, (r + 1) * block_rows)};
  }
  Range col_range(std::int64_t c) const {
    return {c * block_cols, std::min(cols, (c + 1) * block_cols)};
  }
};

Grid make_grid(std::int64_t rows, std::int64_t cols, std::int64_t block_rows,
               std::int64_t block_cols) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  check(rows >= 0 && rows <= kMax, "rows is {}, expected 0 .. {}", rows, kMax);
  check(cols >= 0 && cols <= kMax, "cols is {}, expected 0 .. {}", cols, kMax);
  check_block("block_rows", block_rows);
  check_block("block_cols", block_cols);
  return {rows, cols, block_rows, block_cols};
}

enum class BlockState { none, some, all };

/// Keeps the blocks that `state(r, c)` does not call `none`. Sets `some_partly` where a kept block
/// is not wholly visible.
template <class State>
BlockSparse keep_blocks(const Grid& grid, const State& state, bool& some_partly) {
  BlockSparse matrix;
  matrix.block_cols = grid.block_cols;
  matrix.row_indptr.push_back(0);
  matrix.indptr.push_back(0);
  for (std::int64_t r = 0; r < grid.row_blocks(); ++r) {
    std::int64_t tokens = 0;
    for (std::int64_t c = 0; c < grid.col_blocks(); ++c) {
      const BlockState block = state(r, c);
      if (block == BlockState::none) continue;
      some_partly |= block == BlockState::some;
      matrix.indices.push_back(static_cast<std::int32_t>(c));
      // Only the last block column can be short, and then it is the row's last block too.
      tokens += grid.col_range(c).end - grid.col_range(c).begin;
    }
    matrix.row_indptr.push_back(static_cast<std::int32_t>(grid.row_range(r).end));
    matrix.row_requests.push_back(0);
    matrix.indptr.push_back(
        narrow("indptr", matrix.indptr.size(), static_cast<std::int64_t>(matrix.indices.size())));
    matrix.kv_lens.push_back(static_cast<std::int32_t>(tokens));
  }
  matrix.positions = matrix.indices;  // block j of contiguous KV stores the logical column j
  return matrix;
}

BlockState state_of(std::span<const std::uint8_t> mask, const Grid& grid, std::int64_t r,
                    std::int64_t c) {
  const Range rows = grid.row_range(r), cols = grid.col_range(c);
  std::int64_t kept = 0;
  for (std::int64_t i = rows.begin; i < rows.end; ++i) {
    const auto row = mask.begin() + i * grid.cols;
    kept += (cols.end - cols.begin) - std::count(row + cols.begin, row + cols.end, 0);
  }
  if (kept == 0) return BlockState::none;
  const bool all = kept == (rows.end - rows.begin) * (cols.end - cols.begin);
  return all ? BlockState::all : BlockState::some;
}

void check_mask_size(std::string_view name, std::size_t size, std::int64_t rows,
                     std::int64_t cols) {
  check(static_cast<std::int64_t>(size) == rows * cols,
        "{} has {} elements, expected {} = {} rows x {} columns", name, size, rows * cols, rows,
        cols);
}

void check_mask_tensor(const TensorView& mask, std::size_t b, std::int64_t rows,
                       std::int64_t cols) {
  if (mask.dtype() != DType::u8 || mask.device().kind != DeviceKind::cpu) {
    fail(ErrorKind::type_mismatch, "masks[{}] is {}, expected uint8 on cpu", b, mask);
  }
  check(mask.rank() == 2 && mask.size(0) == rows && mask.size(1) == cols,
        "masks[{}] is {}, expected shape [l_q, l_kv] = [{}, {}]", b, mask, rows, cols);
}

void pack_rows(const TensorView& mask, std::uint8_t* bits) {
  const auto* data = mask.data_as<const std::uint8_t>();
  for (std::int64_t i = 0; i < mask.size(0); ++i) {
    for (std::int64_t j = 0; j < mask.size(1); ++j) {
      if (data[i * mask.stride(0) + j * mask.stride(1)] != 0) {
        sparsity::set_bit(bits, i * mask.size(1) + j);
      }
    }
  }
}

}  // namespace

PackedMask pack_masks(std::span<const TensorView> masks, IndexSpan qo_indptr, IndexSpan kv_lens) {
  const std::size_t requests = check_indptr("qo_indptr", qo_indptr);
  check_count("kv_lens", kv_lens.size(), requests, "qo_indptr");
  check_count("masks", masks.size(), requests, "qo_indptr");
  PackedMask packed;
  packed.indptr.push_back(0);
  for (std::size_t b = 0; b < requests; ++b) {
    const std::int64_t rows = qo_indptr[b + 1] - qo_indptr[b];
    const std::int64_t cols = narrow("kv_lens", b, kv_lens[b]);
    check_mask_tensor(masks[b], b, rows, cols);
    packed.indptr.push_back(packed.indptr.back() + sparsity::bytes_of_bits(rows * cols));
  }
  packed.bits.resize(static_cast<std::size_t>(packed.indptr.back()), 0);
  for (std::size_t b = 0; b < requests; ++b) {
    pack_rows(masks[b], packed.bits.data() + packed.indptr[b]);
  }
  return packed;
}

BlockSparse from_mask(std::span<const std::uint8_t> mask, std::int64_t rows, std::int64_t cols,
                      std::int64_t block_rows, std::int64_t block_cols) {
  const Grid grid = make_grid(rows, cols, block_rows, block_cols);
  check_mask_size("mask", mask.size(), rows, cols);
  bool some_partly = false;
  BlockSparse matrix = keep_blocks(
      grid, [&](std::int64_t r, std::int64_t c) { return state_of(mask, grid, r, c); },
      some_partly);
  if (some_partly) {
    PackedMask packed;
    packed.indptr = {0, sparsity::bytes_of_bits(rows * cols)};
    packed.bits.resize(static_cast<std::size_t>(packed.indptr[1]), 0);
    for (std::int64_t i = 0; i < rows * cols; ++i) {
      if (mask[static_cast<std::size_t>(i)] != 0) sparsity::set_bit(packed.bits.data(), i);
    }
    matrix.mask = std::move(packed);
  }
  return matrix;
}

BlockSparse from_block_mask(std::span<const std::uint8_t> block_mask, std::int64_t rows,
                            std::int64_t cols, std::int64_t block_rows, std::int64_t block_cols) {
  const Grid grid = make_grid(rows, cols, block_rows, block_cols);
  check_mask_size("block_mask", block_mask.size(), grid.row_blocks(), grid.col_blocks());
  bool some_partly = false;
  return keep_blocks(
      grid,
      [&](std::int64_t r, std::int64_t c) {
        const auto at = static_cast<std::size_t>(r * grid.col_blocks() + c);
        return block_mask[at] != 0 ? BlockState::all : BlockState::none;
      },
      some_partly);
}

}  // namespace trencadis
