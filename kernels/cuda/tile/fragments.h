// Operands of mma.m16n8k16 from shared tiles. Q and P are the row operand, K and V the column one.
// A lane finds its place in a tile once and walks from there; each load brings what two products
// need. Rows are counted from that place in multiples of 8.
#pragma once

#include "cuda/ptx/ldmatrix.h"
#include "cuda/ptx/memory.h"
#include "cuda/ptx/thread.h"
#include "cuda/tile/shared_tile.h"

namespace trencadis::tile {

/// For load_rows and load_values, from row `row` on.
template <class Tile>
TRENCADIS_DEVICE ptx::SharedAddress walk_rows(ptx::SharedAddress tile, int row, int lane) {
  return tile + Tile::walk(row + (lane & 15), lane >> 4);
}

/// For load_keys, from key `key` on.
template <class Tile>
TRENCADIS_DEVICE ptx::SharedAddress walk_keys(ptx::SharedAddress tile, int key, int lane) {
  return tile + Tile::walk(key + (lane & 7) + (lane >> 4) * 8, lane >> 3 & 1);
}

/// Row operand: rows [row, row + 16), columns [16 step, 16 step + 16).
template <class Tile>
TRENCADIS_DEVICE void load_rows(unsigned (&a)[4], ptx::SharedAddress walk, int row, int step) {
  ptx::load_matrix_x4(a, Tile::at(walk, step) + row * Tile::kRowBytes);
}

/// Column operands of q k^T: keys [key, key + 16), columns [16 step, 16 step + 16). b[0], b[1] are
/// the first eight keys, b[2], b[3] the others.
template <class Tile>
TRENCADIS_DEVICE void load_keys(unsigned (&b)[4], ptx::SharedAddress walk, int key, int step) {
  ptx::load_matrix_x4(b, Tile::at(walk, step) + key * Tile::kRowBytes);
}

/// Column operands of p v: keys [key, key + 16), columns [16 part, 16 part + 16). b[0], b[1] are
/// the first eight columns, b[2], b[3] the others.
template <class Tile>
TRENCADIS_DEVICE void load_values(unsigned (&b)[4], ptx::SharedAddress walk, int key, int part) {
  ptx::load_matrix_x4_transposed(b, Tile::at(walk, part) + key * Tile::kRowBytes);
}

}  // namespace trencadis::tile
