// (O, LSE) merging: the one operator behind split KV, cascades and chunked prefill.
//
// All tensors of a call lie on one device, which runs it: the CPU before it returns, a GPU in the
// order of `stream`. O of the operands is float32, float16 or bfloat16, of one dtype; the result's
// may be another. LSE is float32. Any strides; on a GPU the last dimension of O is contiguous.
//
// An operand with LSE = -inf is ignored whatever its O holds; none, or none but such, give
// (0, -inf). `out_lse` undefined: it is not wanted. Sums are float32, in the order of the operands.
//
// Throws Error(invalid_argument | type_mismatch) before anything is written. A GPU's tensors have
// their shapes, dtypes and devices checked, not what they hold. Its first call with a pair of
// dtypes loads the kernels, and compiles them where no Attention of these dtypes was made and
// nothing prebuilt them: Error(not_supported | compile_failed | io | device).
#pragma once

#include <trencadis/attention_spec.h>
#include <trencadis/index_span.h>
#include <trencadis/tensor_view.h>

#include <optional>

namespace trencadis {

/// What a merge may be told besides its tensors.
struct MergeOptions {
  LseBase base = LseBase::natural;       // of the operands' LSE
  std::optional<LseBase> out_base = {};  // of the result's; unset: as `base`
  /// int32 [1] on the tensors' device, at most n: rows to merge, read when the kernel runs; the
  /// others are left as they are. Undefined: all.
  TensorView num_rows = {};
  void* stream = nullptr;  // CUDA stream; null: the default stream
};

/// (out, out_lse) = (o_a, lse_a) + (o_b, lse_b). o: [n, H, D], lse: [n, H]. In place is allowed:
/// `out` may be o_a or o_b and `out_lse` lse_a or lse_b, with the same strides and dtype.
void merge_states(const TensorView& o_a, const TensorView& lse_a, const TensorView& o_b,
                  const TensorView& lse_b, const TensorView& out, const TensorView& out_lse,
                  const MergeOptions& options = {});

/// n-way over the first dimension: o [n_states, n, H, D], lse [n_states, n, H]; n_states may be 0.
/// The result may lie in one of the states, with the same strides.
void merge_states(const TensorView& o, const TensorView& lse, const TensorView& out,
                  const TensorView& out_lse, const MergeOptions& options = {});

/// Ragged: row i of the n merges states [indptr[i], indptr[i + 1]) of o [nnz, H, D], lse [nnz, H].
/// indptr: int32 [n + 1], contiguous. Not in place.
void merge_states_ragged(const TensorView& o, const TensorView& lse, const TensorView& indptr,
                         const TensorView& out, const TensorView& out_lse,
                         const MergeOptions& options = {});

/// The same on the CPU with a host array of either width, from 0 to nnz.
void merge_states_ragged(const TensorView& o, const TensorView& lse, IndexSpan indptr,
                         const TensorView& out, const TensorView& out_lse,
                         const MergeOptions& options = {});

}  // namespace trencadis
