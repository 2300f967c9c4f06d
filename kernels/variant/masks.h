// Stock functors that hide keys by data. Causal masks and windows are no functors: they are bounds
// (MaskBounds), which the planner and the main loops know, so that whole tiles are skipped.
#pragma once

#include "variant/hooks.h"
#include "variant/logits.h"

namespace trencadis::variant {

/// A bool a (row, key), packed little-endian: bit qo_pos * kv_len + kv_pos from byte
/// mask_indptr[request]. Reads packed_mask: uint8 and mask_indptr: int64 [B].
struct PackedMask {
  static constexpr HookSet hooks = kLogitsMask;
  template <class P>
  TRENCADIS_FN static bool logits_mask(const P& p, const LogitCoord& at) {
    const long long bit = static_cast<long long>(at.qo_pos) * at.kv_len + at.kv_pos;
    return ((p.packed_mask[p.mask_indptr[at.request] + (bit >> 3)] >> (bit & 7)) & 1) != 0;
  }
};

/// Every row sees the prefix; beyond it the mask is causal. Reads prefix_lens: int32 [B].
struct PrefixLm {
  static constexpr HookSet hooks = kLogitsMask;
  template <class P>
  TRENCADIS_FN static bool logits_mask(const P& p, const LogitCoord& at) {
    const int diagonal = row_position(at);
    const int last_of_prefix = p.prefix_lens[at.request] - 1;
    return at.kv_pos <= (diagonal > last_of_prefix ? diagonal : last_of_prefix);
  }
};

/// A row sees the keys of its own document. Reads q_documents: int32 [nnz_q], kv_documents: int32
/// and kv_document_indptr: int64 [B], where the keys of each request begin in kv_documents.
struct DocumentMask {
  static constexpr HookSet hooks = kLogitsMask;
  template <class P>
  TRENCADIS_FN static bool logits_mask(const P& p, const LogitCoord& at) {
    return p.kv_documents[p.kv_document_indptr[at.request] + at.kv_pos] ==
           p.q_documents[at.qo_token];
  }
};

}  // namespace trencadis::variant
