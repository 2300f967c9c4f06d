// Writing into a paged KV cache. On host tensors.
#pragma once

#include <trencadis/attention.h>
#include <trencadis/block_sparse.h>
#include <trencadis/tensor_view.h>

namespace trencadis {

/// Scatters new keys and values into pages.
///
/// k_new [n, H_kv, D_qk], v_new [n, H_kv, D_vo]: token i goes to position positions[i] of request
/// batch_indices[i]; a negative position or batch index is skipped. k_pool, v_pool: pages in
/// `layout`, any strides. table: the page table after the append (kv_lens are not read). Values are
/// converted to the pool's dtype, saturating.
/// Throws Error(invalid_argument | type_mismatch | out_of_capacity: a position beyond the request's
/// pages) before anything is written.
void append_kv(const TensorView& k_new, const TensorView& v_new, IndexSpan batch_indices,
               IndexSpan positions, const TensorView& k_pool, const TensorView& v_pool,
               const BlockSparseView& table, KvLayout layout = KvLayout::nhd);

}  // namespace trencadis
