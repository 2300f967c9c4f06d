// Query, key and value hooks over rows of a shared tile. A hook makes an element from the whole
// row, so a warp takes a row apart into floats first, and its lanes make the elements anew.
#pragma once

#include "cuda/collective/element.h"
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

}  // namespace trencadis::collective
