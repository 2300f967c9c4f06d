// A tile of rows in shared memory as the products of a warpgroup read it: eight rows by a slab of
// 64 16-bit elements are 1,024 bytes in the 128-byte swizzle, the slabs of eight rows side by side.
// ldmatrix reads it without conflicts as well.
#pragma once

#include "contract/units.h"
#include "cuda/ptx/memory.h"
#include "cuda/ptx/thread.h"
#include "cuda/ptx/warpgroup.h"
#include "cuda/tile/shared_tile.h"

namespace trencadis::tile {

/// kCols elements a row.
template <int kCols>
struct SlabTile {
  static constexpr int kSlabElements = 64;
  static_assert(kCols % kSlabElements == 0, "a row is whole slabs");
  static constexpr int kSlabs = kCols / kSlabElements;
  static constexpr int kSlabBytes = 1024;
  static constexpr int kGroupBytes = kSlabs * kSlabBytes;  // of eight rows
  static constexpr int kAlignment = 1024;
  static constexpr int kChunkElements = kChunkBytes / 2;
  static constexpr int kChunks = kCols / kChunkElements;
  /// Where rows are counted in multiples of 8.
  static constexpr int kRowBytes = kGroupBytes / 8;

  TRENCADIS_FN static constexpr int bytes(int rows) { return rows * kRowBytes; }

  /// Bytes from the tile's start to chunk `chunk` of row `row`.
  TRENCADIS_FN static constexpr int offset(int row, int chunk) {
    return row / 8 * kGroupBytes + chunk / 8 * kSlabBytes + row % 8 * 128 +
           ((chunk ^ row) & 7) * kChunkBytes;
  }
  TRENCADIS_FN static int element_offset(int row, int col) {
    return offset(row, col / kChunkElements) + col % kChunkElements * 2;
  }

  /// From a chunk's place to the same chunk `rows` rows further down, where those are of the same
  /// aligned eight (or four, from whose first it starts).
  TRENCADIS_DEVICE static ptx::SharedAddress below(ptx::SharedAddress chunk, int rows) {
    return ptx::SharedAddress{chunk.bits ^ static_cast<unsigned>(rows * kChunkBytes)} + rows * 128;
  }

  /// As SharedTile's.
  TRENCADIS_FN static int walk(int row, int parity) { return offset(row, parity); }
  TRENCADIS_DEVICE static ptx::SharedAddress at(ptx::SharedAddress walk, int step) {
    return ptx::SharedAddress{walk.bits ^ static_cast<unsigned>(step % 4 * 2 * kChunkBytes)} +
           step / 4 * kSlabBytes;
  }

  /// Operands of a warpgroup. Rows along the sum, of which step `step` takes 16 columns.
  TRENCADIS_DEVICE static ptx::SharedMatrix rows(ptx::SharedAddress tile) {
    return ptx::SharedMatrix::at(tile, kSlabBytes, kGroupBytes);
  }
  TRENCADIS_FN static constexpr int row_step(int step) {
    return step / 4 * kSlabBytes + step % 4 * 2 * kChunkBytes;
  }
  /// Rows across the sum, of which step `step` takes 16; from the slab `slab` on.
  TRENCADIS_FN static constexpr int column_step(int step, int slab) {
    return step * 2 * kGroupBytes + slab * kSlabBytes;
  }
};

}  // namespace trencadis::tile
