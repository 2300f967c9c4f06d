// Every way to store a KV cache as one thing: block-sparse rows (BSR) over a pool that never moves.
//
// A block row is a run of query tokens that read the same list of KV blocks. `indices` names blocks
// (pages) of the pool, each B_c tokens. The storage token t of a row is token t % B_c of block
// indices[indptr[r] + t / B_c]; its logical position in the request is t, or, where `positions` is
// given, positions[indptr[r] + t / B_c] * B_c + t % B_c.
#pragma once

#include <trencadis/index_span.h>
#include <trencadis/tensor_view.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace trencadis {

/// A borrowed BSR matrix in host memory (indices may be int32 or int64).
struct BlockSparseView {
  std::int64_t block_cols = 1;  // B_c: tokens a block (the page size P)
  IndexSpan row_indptr =
      {};  // [rows + 1] query tokens (over nnz_q); empty: one block row a request
  IndexSpan row_requests = {};  // [rows] request of each block row; empty: row r is request r
  IndexSpan indptr = {};        // [rows + 1] into indices, in blocks
  IndexSpan indices =
      {};  // [nnz] block ids; empty: row r's j-th block is indptr[r] + j (contiguous)
  IndexSpan positions = {};  // [nnz] logical block column, ascending in a row; empty: j-th is j
  IndexSpan kv_lens = {};    // [rows] storage tokens of each row that are valid
};

/// A bool a (query row, key) of each request, packed little-endian, each request at a byte
/// boundary: bit (i * l_kv + j) of request b starts at byte indptr[b].
struct PackedMask {
  std::vector<std::uint8_t> bits;
  std::vector<std::int64_t> indptr;  // [B + 1] bytes
};

/// An owned BSR matrix, int32 throughout.
struct BlockSparse {
  std::int64_t block_cols = 1;
  std::vector<std::int32_t> row_indptr;
  std::vector<std::int32_t> row_requests;
  std::vector<std::int32_t> indptr;
  std::vector<std::int32_t> indices;
  std::vector<std::int32_t> positions;
  std::vector<std::int32_t> kv_lens;
  /// Element mask over logical (row, key) where blocks alone do not say it; AND with the blocks.
  std::optional<PackedMask> mask;

  BlockSparseView view() const;
};

/// Page table in CSR form with KV lengths in tokens. page_size is B_c; one block row a request.
/// Throws Error(invalid_argument): indptr not starting at 0 or decreasing, lengths that disagree
/// with the pages, negative page ids among the used ones.
BlockSparse from_page_table(IndexSpan indptr, IndexSpan indices, IndexSpan kv_lens,
                            std::int64_t page_size);

/// The same with the fill of each last page, 1 <= last_page_len <= page_size (0 pages: 0 tokens).
BlockSparse from_last_page_lens(IndexSpan indptr, IndexSpan indices, IndexSpan last_page_lens,
                                std::int64_t page_size);

/// A padded table [batch, max_pages], row-major; entries beyond a request's pages are never read.
BlockSparse from_padded_table(IndexSpan table, std::int64_t max_pages, IndexSpan kv_lens,
                              std::int64_t page_size);

/// Contiguous ragged KV [nnz_kv, H_kv, D]: request b owns tokens [kv_indptr[b], kv_indptr[b + 1]).
BlockSparse from_ragged(IndexSpan kv_indptr);

/// A radix tree over pages: node n holds `pages` whose parent's pages come before it.
struct RadixTree {
  struct Node {
    std::int32_t parent = -1;         // -1: a root
    std::vector<std::int32_t> pages;  // page ids of this node alone
    std::int64_t tokens = 0;          // valid tokens of this node; all pages but a leaf's last
                                      // are full
  };
  std::vector<Node> nodes;
  std::vector<std::int32_t> leaves;  // [B] the node at which each request ends; -1: no KV
};

/// Each request's path from the root, flattened: one block row a request.
BlockSparse from_radix_tree(const RadixTree& tree, std::int64_t page_size);

/// A draft tree of one request: node i attends to the whole prefix and to its ancestors and itself.
struct SpeculationTree {
  std::vector<std::int32_t> parents;  // [nodes] topological order, -1: child of the prefix
};

/// Requests whose last trees[b].parents.size() KV tokens are draft nodes, in node order, and whose
/// query rows are those nodes. The mask hides siblings from each other.
BlockSparse from_speculation_trees(IndexSpan indptr, IndexSpan indices, IndexSpan kv_lens,
                                   std::span<const SpeculationTree> trees, std::int64_t page_size);

/// Packs one boolean mask a request, for the tensors `packed_mask` and `mask_indptr`. masks[b]:
/// host uint8 [l_q, l_kv], any strides, nonzero = keep. qo_indptr: [B + 1]; kv_lens: [B]. Throws
/// Error(invalid_argument | type_mismatch) for a mask of another shape, dtype or device.
PackedMask pack_masks(std::span<const TensorView> masks, IndexSpan qo_indptr, IndexSpan kv_lens);

/// A boolean mask (row-major bytes, nonzero = keep) of one request over contiguous KV: [rows,
/// cols]. Blocks of (block_rows, block_cols) with no true element are dropped; a partly true block
/// keeps its elements in `mask`.
BlockSparse from_mask(std::span<const std::uint8_t> mask, std::int64_t rows, std::int64_t cols,
                      std::int64_t block_rows, std::int64_t block_cols);

/// A block mask [ceil(rows / block_rows), ceil(cols / block_cols)] of one request.
BlockSparse from_block_mask(std::span<const std::uint8_t> block_mask, std::int64_t rows,
                            std::int64_t cols, std::int64_t block_rows, std::int64_t block_cols);

/// The mask that a BSR matrix stands for, [l_q, l_kv] bytes of request `request`: what the laws
/// compare. qo_indptr: [B + 1]; kv_lens: [B] logical lengths.
std::vector<std::uint8_t> expand(const BlockSparse& matrix, IndexSpan qo_indptr, IndexSpan kv_lens,
                                 std::int64_t request);

}  // namespace trencadis
