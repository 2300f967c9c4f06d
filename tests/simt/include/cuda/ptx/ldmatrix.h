// The emulation of kernels/cuda/ptx/ldmatrix.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "contract/units.h"
#include "cuda/ptx/memory.h"
#include "cuda/ptx/thread.h"
#include "simt/emulator.h"

namespace trencadis::ptx {
namespace detail {

struct MatrixRow {
  const char* address;
  std::size_t offset;  // in shared memory
  unsigned* results;   // a register a matrix
};

/// The eight rows are read at once if they lie in different groups of four banks; rows of the same
/// address are one. Otherwise the fullest group says how often the banks are asked.
inline int conflicts(void* const* rows) {
  int fullest = 1;
  for (std::size_t group = 0; group < 8; ++group) {
    std::size_t offsets[8];
    int count = 0;
    for (int i = 0; i < 8; ++i) {
      const std::size_t offset = static_cast<const MatrixRow*>(rows[i])->offset;
      if (offset / 16 % 8 != group) continue;
      if (std::find(offsets, offsets + count, offset) == offsets + count) offsets[count++] = offset;
    }
    fullest = std::max(fullest, count);
  }
  return fullest - 1;
}

template <bool kTransposed>
void load_matrices(void* const* lanes) {
  for (int m = 0; m < 4; ++m) {
    std::uint16_t matrix[8][8];
    for (int i = 0; i < 8; ++i) {
      std::memcpy(matrix[i], static_cast<const MatrixRow*>(lanes[8 * m + i])->address, 16);
    }
    for (int l = 0; l < simt::kWarpSize; ++l) {
      const int row = kTransposed ? 2 * (l % 4) : l / 4;
      const int column = kTransposed ? l / 4 : 2 * (l % 4);
      const unsigned low = matrix[row][column];
      const unsigned high = kTransposed ? matrix[row + 1][column] : matrix[row][column + 1];
      static_cast<const MatrixRow*>(lanes[l])->results[m] = high << 16 | low;
    }
    simt::counters().ldmatrix_phases += 1;
    simt::counters().ldmatrix_conflicts += static_cast<std::uint64_t>(conflicts(lanes + 8 * m));
  }
}

template <bool kTransposed>
void ldmatrix(const char* operation, unsigned* results, const void* shared_row) {
  const std::size_t offset = simt::shared_offset(operation, shared_row);
  MatrixRow mine{static_cast<const char*>(shared_row), offset, results};
  simt::warp_collective(operation, &mine, load_matrices<kTransposed>);
}

}  // namespace detail

inline void load_matrix_x4(unsigned (&r)[4], const void* shared_row) {
  detail::ldmatrix<false>("load_matrix_x4", r, shared_row);
}

inline void load_matrix_x4_transposed(unsigned (&r)[4], const void* shared_row) {
  detail::ldmatrix<true>("load_matrix_x4_transposed", r, shared_row);
}

inline void load_matrix_x4(unsigned (&r)[4], SharedAddress shared_row) {
  load_matrix_x4(r, detail::pointer_to(shared_row));
}
inline void load_matrix_x4_transposed(unsigned (&r)[4], SharedAddress shared_row) {
  load_matrix_x4_transposed(r, detail::pointer_to(shared_row));
}

}  // namespace trencadis::ptx
