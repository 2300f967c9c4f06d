// A tile of rows in shared memory, in chunks of 16 bytes, laid out so that eight neighbouring rows
// read at equal columns (one phase of ldmatrix, or eight threads of a row each) lie in eight
// different bank groups.
#pragma once

#include "contract/units.h"
#include "cuda/ptx/memory.h"
#include "cuda/ptx/thread.h"

namespace trencadis::tile {

inline constexpr int kChunkBytes = 16;

/// kCols elements a row, a multiple of 16.
template <int kCols, int kElementBytes = 2>
struct SharedTile {
  static_assert(kCols % 16 == 0, "a row is whole k-steps of a matrix product");
  static constexpr int kChunkElements = kChunkBytes / kElementBytes;
  static constexpr int kChunks = kCols / kChunkElements;
  /// Rows of whole bank lines: the chunk's place is turned by the row. Other rows are spaced an odd
  /// number of chunks apart, which visits every bank group too.
  static constexpr bool kTurned = kChunks % 8 == 0;
  static constexpr int kRowBytes = (kTurned ? kChunks : kChunks | 1) * kChunkBytes;

  TRENCADIS_FN static constexpr int bytes(int rows) { return rows * kRowBytes; }

  /// Bytes from the tile's start to chunk `chunk` of row `row`.
  TRENCADIS_FN static int offset(int row, int chunk) {
    return row * kRowBytes + (kTurned ? chunk ^ (row & 7) : chunk) * kChunkBytes;
  }
  /// Of a lane that walks along a row, two chunks a step: where it is at step 0, on the chunk
  /// `parity`. The tile begins at a multiple of kAlignment.
  static constexpr int kAlignment = 128;
  TRENCADIS_FN static int walk(int row, int parity) { return offset(row, parity); }
  /// Where it is at `step`. A turned row keeps its turn in bits 4 to 6 of the address, and a step
  /// moves bit 5 and up: one xor, and what does not depend on the lane is an immediate.
  TRENCADIS_DEVICE static ptx::SharedAddress at(ptx::SharedAddress walk, int step) {
    if (!kTurned) return walk + 2 * step * kChunkBytes;
    return ptx::SharedAddress{walk.bits ^ static_cast<unsigned>(step % 4 * 2 * kChunkBytes)} +
           step / 4 * kAlignment;
  }
  /// Bytes to one element.
  TRENCADIS_FN static int element_offset(int row, int col) {
    return offset(row, col / kChunkElements) + col % kChunkElements * kElementBytes;
  }
};

}  // namespace trencadis::tile
