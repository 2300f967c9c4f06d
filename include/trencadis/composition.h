// (O, LSE) merging: the one operator behind split KV, cascades and chunked prefill. On host
// tensors.
#pragma once

#include <trencadis/attention_spec.h>
#include <trencadis/index_span.h>
#include <trencadis/tensor_view.h>

#include <span>

namespace trencadis {

/// out, lse = (o_a, lse_a) + (o_b, lse_b). o: [n, H, D] of one dtype, lse: float32 [n, H] in base
/// `base`, any strides. In place (out = o_a, lse = lse_a) is allowed. An operand with
/// LSE = -inf is ignored whatever its O holds; two empty ones give (0, -inf).
/// Throws Error(invalid_argument | type_mismatch).
void merge_states(const TensorView& o_a, const TensorView& lse_a, const TensorView& o_b,
                  const TensorView& lse_b, const TensorView& out, const TensorView& lse,
                  LseBase base = LseBase::natural);

/// n-way over the first dimension: o [n_states, n, H, D], lse [n_states, n, H]; n_states may be 0.
void merge_states(const TensorView& o, const TensorView& lse, const TensorView& out,
                  const TensorView& out_lse, LseBase base = LseBase::natural);

/// Ragged: row i merges states [indptr[i], indptr[i + 1]) of o [nnz, H, D], lse [nnz, H].
void merge_states_ragged(const TensorView& o, const TensorView& lse, IndexSpan indptr,
                         const TensorView& out, const TensorView& out_lse,
                         LseBase base = LseBase::natural);

}  // namespace trencadis
