// Operands of mma.m16n8k16 from shared tiles. Q and P are the row operand, K and V the column one;
// each load brings what two products need.
#pragma once

#include "cuda/ptx/ldmatrix.h"
#include "cuda/ptx/thread.h"
#include "cuda/tile/shared_tile.h"

namespace trencadis::tile {

/// Row operand: rows [row, row + 16), columns [16 step, 16 step + 16) of the tile.
template <class Tile>
TRENCADIS_DEVICE void load_rows(unsigned (&a)[4], const char* tile, int row, int step) {
  const int lane = ptx::lane_index();
  ptx::load_matrix_x4(a, tile + Tile::offset(row + (lane & 15), 2 * step + (lane >> 4)));
}

/// Column operands of q k^T: keys [key, key + 16), columns [16 step, 16 step + 16). b[0], b[1] are
/// the first eight keys, b[2], b[3] the others.
template <class Tile>
TRENCADIS_DEVICE void load_keys(unsigned (&b)[4], const char* tile, int key, int step) {
  const int lane = ptx::lane_index();
  ptx::load_matrix_x4(
      b, tile + Tile::offset(key + (lane & 7) + (lane >> 4) * 8, 2 * step + (lane >> 3 & 1)));
}

/// Column operands of p v: keys [key, key + 16), columns [16 part, 16 part + 16). b[0], b[1] are
/// the first eight columns, b[2], b[3] the others.
template <class Tile>
TRENCADIS_DEVICE void load_values(unsigned (&b)[4], const char* tile, int key, int part) {
  const int lane = ptx::lane_index();
  ptx::load_matrix_x4_transposed(b, tile + Tile::offset(key + (lane & 15), 2 * part + (lane >> 4)));
}

}  // namespace trencadis::tile
