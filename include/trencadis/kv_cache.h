// Tokens and pages of a paged KV cache: writing, reading, copying, compacting.
//
// Keys, values and pools are of float32, float16 or bfloat16; where a call's two sides differ,
// values are rounded to nearest even, saturating, and a NaN stays one; where they don't, every bit
// is kept. All tensors of a call lie on one device, which runs it: the CPU before it returns, a GPU
// in the order of `stream`. Any strides; on a GPU the last dimension is contiguous, keys and values
// have one dtype, and so have both pools.
//
// Every function checks all that it can before anything is written, and throws
// Error(invalid_argument | type_mismatch). A GPU's tensors have their shapes, dtypes and devices
// checked, not what they hold, which is read when the kernel runs. Its first call with a pair of
// dtypes loads the kernels, and compiles them where no Attention of these dtypes was made and
// nothing prebuilt them: Error(not_supported | compile_failed | io | device).
#pragma once

#include <trencadis/attention.h>
#include <trencadis/block_sparse.h>
#include <trencadis/tensor_view.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace trencadis {

/// One layer's keys and values in pages of P tokens.
struct KvPool {
  TensorView k = {};  // [pages, P, H_kv, D_qk] (nhd) or [pages, H_kv, P, D_qk] (hnd)
  TensorView v = {};  // the same with D_vo; undefined: there are no values
  KvLayout layout = KvLayout::nhd;
};

/// Where tokens lie in a pool, in arrays on the pool's device, each contiguous. A captured graph
/// replays with what they hold then. Give a request and a position for each token with a page
/// table, or slots alone.
struct TokenPlaces {
  /// int32 [capacity]: token i is position positions[i] of request batch_indices[i]; a negative
  /// number in either skips it.
  TensorView batch_indices = {};
  TensorView positions = {};
  TensorView indptr = {};   // int32 [requests + 1] blocks of each request, after the append
  TensorView indices = {};  // int32 [nnz] page of each block; undefined: the block's own number

  /// int64 [capacity]: token i is token slots[i] % P of page slots[i] / P; negative: skipped.
  TensorView slots = {};

  TensorView num_tokens = {};  // int32 [1], at most the capacity; undefined: the capacity

  /// int32 [1] or undefined. Grows by the tokens whose request, block or page does not exist, which
  /// are skipped. Undefined: a GPU skips them without a word, the CPU throws before anything is
  /// written: Error(out_of_capacity) for a position beyond the request's blocks,
  /// Error(invalid_argument) for others.
  TensorView num_refused = {};
};

/// Rotation of keys on their way into the pool, with the meaning of variant::Rope: attention over
/// them then rotates queries alone.
struct AppendRope {
  TensorView inv_freq = {};   // float32 [dim / 2], contiguous
  int dim = 0;                // leading elements that rotate, even; 0: all D_qk
  bool interleaved = false;   // pairs (2d, 2d + 1), else (d, d + dim / 2)
  TensorView positions = {};  // int32 [capacity]; undefined: those of the places, not with slots
};

struct AppendOptions {
  std::optional<AppendRope> rope = {};
  void* stream = nullptr;  // CUDA stream; null: the default stream
};

/// Rows into pages. k [capacity, H_kv, D_qk], v [capacity, H_kv, D_vo], or undefined where the pool
/// has no values. No two tokens have one place.
void append_kv(const TensorView& k, const TensorView& v, const KvPool& pool,
               const TokenPlaces& places, const AppendOptions& options = {});

/// The same on the CPU with host arrays of either width, as plan() takes them. table: the page
/// table after the append (kv_lens are not read). Throws Error(out_of_capacity) for a position
/// beyond the request's pages.
void append_kv(const TensorView& k_new, const TensorView& v_new, IndexSpan batch_indices,
               IndexSpan positions, const TensorView& k_pool, const TensorView& v_pool,
               const BlockSparseView& table, KvLayout layout = KvLayout::nhd);

/// Pages into rows: the inverse of append_kv, without rotation. Rows of tokens that are skipped,
/// and those behind num_tokens, are left as they are.
void gather_kv(const KvPool& pool, const TokenPlaces& places, const TensorView& k,
               const TensorView& v, void* stream = nullptr);

/// Pages to copy, in arrays on the pools' device, each contiguous.
struct PagePairs {
  /// int32 [capacity]: page from[i] of one pool becomes page to[i] of the other; a negative number
  /// in either skips the pair.
  TensorView from = {};
  TensorView to = {};
  TensorView num_pairs = {};  // int32 [1], at most the capacity; undefined: the capacity
  /// int32 [1] or undefined. Grows by the pairs beyond a pool, which are skipped. Undefined: a GPU
  /// skips them without a word, the CPU throws Error(invalid_argument).
  TensorView num_refused = {};
};

/// Pages of one pool into another, which may differ in dtype, layout and number of pages, or into
/// others of the same pool. Pairs run side by side: no page is written by two that differ, and in
/// one pool none is both read and written, but for from[i] == to[i], which is nothing. Two views
/// are of one pool where they begin at one address, and must not overlap where they do not.
void copy_pages(const KvPool& source, const KvPool& target, const PagePairs& pairs,
                void* stream = nullptr);

/// What makes the pages of a table the first of its pool.
struct Compaction {
  std::vector<std::int32_t> from, to;  // for copy_pages, once a layer; no page is in both
  std::vector<std::int32_t> indices;   // the table's, after the copies
  std::int64_t pages_used = 0;         // n: those from here on are free
};

/// The fewest copies after which the n different pages that the rows of `table` name are pages
/// 0 .. n - 1: those beyond go to the free ones below, in ascending order. A page that several
/// requests share stays shared; entries of `indices` that no row names stay as they are. Host data
/// only. Throws Error(invalid_argument): a page that is negative or not below `pool_pages`, an
/// indptr that decreases or leaves `indices`, a contiguous table.
Compaction compact_pages(const BlockSparseView& table, std::int64_t pool_pages);

}  // namespace trencadis
