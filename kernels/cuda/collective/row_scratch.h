// Query, key and value hooks over rows of a shared tile. A hook makes an element from the whole
// row, so a warp takes a row apart into floats first, and its lanes make the elements anew.
#pragma once

#include "cuda/collective/element.h"
#include "cuda/ptx/memory.h"
#include "cuda/ptx/thread.h"
#include "cuda/tile/shared_tile.h"

namespace trencadis::collective {

/// A row before the transform, as hooks see it.
struct FloatRow {
  const float* elements;
  int dim;
  TRENCADIS_FN float operator[](int d) const { return elements[d]; }
  TRENCADIS_FN int size() const { return dim; }
};

/// Calls element(row, d) for each of the kDim elements and stores the results in place. `scratch`
/// holds kDim floats of the calling warp's own.
template <class Tag, class Tile, int kDim, class Fn>
TRENCADIS_DEVICE void rewrite_row(char* tile, int row, float* scratch, Fn element) {
  const auto at = [&](int d) {
    return reinterpret_cast<typename Element<Tag>::Storage*>(tile + Tile::element_offset(row, d));
  };
  for (int d = ptx::lane_index(); d < kDim; d += 32) scratch[d] = Element<Tag>::load(*at(d));
  ptx::sync_warp();
  const FloatRow source{scratch, kDim};
  for (int d = ptx::lane_index(); d < kDim; d += 32)
    *at(d) = Element<Tag>::store(element(source, d));
  ptx::sync_warp();
}

/// Turns the sign of the first `rows` rows of a tile of 16-bit elements; `thread` of `threads`.
template <class Tile>
TRENCADIS_DEVICE void negate_rows(ptx::SharedAddress tile, int rows, int thread, int threads) {
#pragma unroll 1
  for (int i = thread; i < rows * Tile::kChunks; i += threads) {
    const ptx::SharedAddress at = tile + Tile::offset(i / Tile::kChunks, i % Tile::kChunks);
    ptx::Bytes16 bytes = ptx::load_shared_16(at);
#pragma unroll
    for (unsigned& word : bytes.w) word ^= 0x80008000u;
    ptx::store_shared_16(at, bytes);
  }
}

}  // namespace trencadis::collective
