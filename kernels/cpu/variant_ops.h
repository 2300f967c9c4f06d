// The seam between the CPU main loop and a variant: the loop works on tiles, the variant's hooks
// are inlined into loops over one tile, so that a variant compiles alone, in a second, and the main
// loop is compiled once. A null function means that the variant lacks the hook.
#pragma once

#include "contract/params.h"
#include "variant/hooks.h"

namespace trencadis::cpu {

/// Rows of a query tile: fused row first_row + i is token (first_row + i) / group, head-in-group
/// (first_row + i) % group of `request`.
struct TileCoord {
  int request;
  int first_row;
  int rows;
  int group;
  int kv_head;
  int qo_begin;  // qo_indptr[request]
  int qo_len;
  int kv_len;
};

/// All pointers are float tiles in thread-private memory. `positions[c]` is the logical position of
/// key column c.
struct VariantOps {
  unsigned abi;  // kVariantAbi
  unsigned hooks;
  /// q: [rows, D] in place, row stride `stride`.
  void (*query)(const contract::VariantArgs&, const TileCoord&, float* q, int dim, int stride);
  /// k: [keys, D] in place, row stride `stride`.
  void (*key)(const contract::VariantArgs&, const TileCoord&, const int* positions, int keys,
              float* k, int dim, int stride);
  void (*value)(const contract::VariantArgs&, const TileCoord&, const int* positions, int keys,
                float* v, int dim, int stride);
  /// s: [rows, keys] logits already scaled by sm_scale; transforms, then masks with -inf (softmax)
  /// or 0 (use_softmax = false).
  void (*logits)(const contract::VariantArgs&, const TileCoord&, const int* positions, int keys,
                 float* s, int stride, bool use_softmax);
  /// o: [rows, D_vo] final values in place.
  void (*output)(const contract::VariantArgs&, const TileCoord&, float* o, int dim, int stride);
};

/// Changes whenever a struct above does.
inline constexpr unsigned kVariantAbi = 1;

/// The symbol that a compiled variant exports: `extern "C" const VariantOps trencadis_variant_ops`.
inline constexpr const char* kVariantSymbol = "trencadis_variant_ops";

}  // namespace trencadis::cpu
