// Matrices of 8 x 8 16-bit elements, from shared memory to the fragments of mma.h.
//
// Lane 8 m + i passes the address of row i of matrix m: 16 bytes, 16-byte aligned. Lane l receives
// of matrix m, in r[m], the elements (l / 4, 2 (l % 4)) and the one to its right, the left one in
// the low half; transposed: (2 (l % 4), l / 4) and the one below it.
#pragma once

#include "contract/units.h"
#include "cuda/ptx/memory.h"
#include "cuda/ptx/thread.h"

namespace trencadis::ptx {

TRENCADIS_DEVICE void load_matrix_x4(unsigned (&r)[4], SharedAddress shared_row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_row.bits)
               : "memory");
}

TRENCADIS_DEVICE void load_matrix_x4_transposed(unsigned (&r)[4], SharedAddress shared_row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_row.bits)
               : "memory");
}

// The same by pointers.

TRENCADIS_DEVICE void load_matrix_x4(unsigned (&r)[4], const void* shared_row) {
  load_matrix_x4(r, shared_place(shared_row));
}
TRENCADIS_DEVICE void load_matrix_x4_transposed(unsigned (&r)[4], const void* shared_row) {
  load_matrix_x4_transposed(r, shared_place(shared_row));
}

}  // namespace trencadis::ptx
