// Every function of the PTX room that only sm_90a has, in one kernel of 128 threads.
#include "cuda/ptx/cp_async.h"
#include "cuda/ptx/mbarrier.h"
#include "cuda/ptx/memory.h"
#include "cuda/ptx/thread.h"
#include "cuda/ptx/warpgroup.h"

namespace trencadis::ptx {

template <class Element, int kTiles>
TRENCADIS_DEVICE float multiply(SharedMatrix tile, const unsigned (&rows)[4]) {
  float d[kTiles][4];
  float wide[2 * kTiles][4];
#pragma unroll
  for (int j = 0; j < 2 * kTiles; ++j) wide[j][0] = wide[j][1] = wide[j][2] = wide[j][3] = 1.0f;
  begin_products();
  multiply_rows<Element, kTiles>(d, tile, tile, false);
  multiply_rows<Element, kTiles>(d, tile + 32, tile + 32, true);
  commit_products();
  multiply_columns<Element, kTiles, 0>(wide, rows, tile);
  multiply_columns<Element, kTiles, kTiles>(wide, rows, tile);
  commit_products();
  wait_products<1>();
  accept(d);
  float sum = d[0][0] + d[kTiles - 1][3];
  wait_products<0>();
  accept(wide);
  sum += wide[0][0] + wide[2 * kTiles - 1][3];
  return sum;
}

/// 16 KiB of `in` become 128 rows of 64 elements.
extern "C" __global__ void use_every_sm90_instruction(const char* in, float* out) {
  shrink_registers<160>();
  grow_registers<168>();
  const SharedAddress tile = shared_place(dynamic_shared());
  const SharedAddress barrier = tile + 16384;
  if (thread_index() == 0) make_barrier(barrier, 256);
  sync_cta();

  for (int i = thread_index(); i < 1024; i += 128) copy_async_run_16(tile + 16 * i, in + 16 * i);
  arrive_with_copies(barrier);
  arrive(barrier);
  wait_phase(barrier, 0);
  show_to_products();

  const SharedMatrix matrix = SharedMatrix::at(tile, 1024, 1024);
  const unsigned rows[4] = {0, 0, 0, 0};
  float sum = multiply<Half, 8>(matrix, rows) + multiply<Half, 16>(matrix, rows);
  sum += multiply<BFloat, 8>(matrix, rows) + multiply<BFloat, 16>(matrix, rows);
  if (warp_index() < 2) {
    arrive_threads_named(1, 128);
  } else {
    sync_threads_named(1, 128);
  }
  out[thread_index()] = sum;
}

}  // namespace trencadis::ptx
