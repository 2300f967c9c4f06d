// Attention as the textbook has it: float64, one loop a step, no tiles and no online softmax. The
// oracle of every test; it shares nothing with the kernels.
#pragma once

#include <trencadis/attention.h>
#include <trencadis/block_sparse.h>
#include <trencadis/tensor_view.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace trencadis::reference {

/// Where a hook is called. A row or key that the hook does not concern has the value -1.
struct At {
  std::int64_t request = 0;
  std::int64_t l_q = 0, l_kv = 0;
  std::int64_t row = -1;    // in the request
  std::int64_t token = -1;  // the same row in the ragged q
  std::int64_t qo_head = -1;
  std::int64_t key = -1;  // logical position in the request
  std::int64_t kv_head = -1;

  /// p: the position of the query row among the keys (the last row is at the last key).
  std::int64_t position() const { return row + l_kv - l_q; }
};

using RowHook = std::function<void(std::span<double> row, const At& at)>;

/// What a variant changes; an empty function changes nothing.
struct Hooks {
  RowHook query{};   // [D_qk], before sm_scale
  RowHook key{};     // [D_qk]
  RowHook value{};   // [D_vo]
  RowHook output{};  // [D_vo], normalised
  std::function<double(double logit, const At& at)> logit{};
  std::function<bool(const At& at)> mask{};  // true keeps
};

struct Problem {
  Heads heads;
  TensorView q;         // [nnz_q, H_q, D_qk], float64 or a storage type
  TensorView k;         // [blocks, B_c, H_kv, D_qk], see as_blocks()
  TensorView v;         // [blocks, B_c, H_kv, D_vo]
  IndexSpan qo_indptr;  // [B + 1]
  IndexSpan kv_lens;    // [B] logical
  BlockSparseView kv;
  MaskBounds bounds;
  double sm_scale = 0.0;  // 0: 1 / sqrt(D_qk)
  LseBase lse_base = LseBase::natural;
  bool use_softmax = true;
  std::optional<std::vector<double>> sinks;  // [H_q]
  Hooks hooks;
};

struct Result {
  std::vector<double> out;  // [nnz_q, H_q, D_vo]
  std::vector<double> lse;  // [nnz_q, H_q], without the sink; empty where use_softmax = false
};

/// A pool in either layout, pages of rank 4 or tokens of rank 3, as the [blocks, B_c, H_kv, D] that
/// Problem takes. Shares memory. The last block of ragged tokens may extend past them.
TensorView as_blocks(const TensorView& pool, KvLayout layout, std::int64_t block_cols);

/// Reads the tokens that the block rows own and nothing else of the pool.
Result attention(const Problem& problem);

/// Element `i` (in elements from the view's data) of a floating-point tensor.
double load(const TensorView& tensor, std::int64_t i);

}  // namespace trencadis::reference
