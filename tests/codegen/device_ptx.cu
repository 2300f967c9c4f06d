// Every function of kernels/cuda/ptx in one kernel: it is compiled, never run.
#include "cuda/ptx/convert.h"
#include "cuda/ptx/cp_async.h"
#include "cuda/ptx/ldmatrix.h"
#include "cuda/ptx/math.h"
#include "cuda/ptx/memory.h"
#include "cuda/ptx/mma.h"
#include "cuda/ptx/sync.h"
#include "cuda/ptx/thread.h"

// Inside the namespace: at the outermost scope nvcc has functions of its own of some of these
// names.
namespace trencadis::ptx {

template <class Element>
TRENCADIS_DEVICE float convert(float x) {
  const unsigned pair = pack<Element>(x, x + 1.0f);
  const float single = to_float<Element>(from_float<Element>(x));
  return unpack_low<Element>(pair) + unpack_high<Element>(pair) + single;
}

extern "C" __global__ void use_every_instruction(const char* in, char* out, int* counters) {
  launch_dependents();
  wait_for_dependencies();

  char* const row = dynamic_shared() + 16 * lane_index();
  copy_async_16(row, in + 16 * thread_index(), warp_index() < cta_threads() / 64);
  commit_copies();
  wait_copies<1>();
  wait_copies<0>();
  sync_cta();

  unsigned a[4];
  unsigned b[4];
  load_matrix_x4(a, row);
  load_matrix_x4_transposed(b, row);
  float d[4] = {};
  mma_16x8x16<Half>(d, a, b[0], b[1]);
#if __CUDA_ARCH__ >= 800 || defined(BFLOAT_EVERYWHERE)
  mma_16x8x16<BFloat>(d, a, b[2], b[3]);
#else
  mma_16x8x16<Half>(d, a, b[2], b[3]);
#endif

  float sum = d[0] + d[1] + d[2] + d[3];
  sum += shuffle_xor(sum, 16) + shuffle(sum, 3);
  sum += static_cast<float>(opaque(warp_index()));
  sum += static_cast<float>(shuffle(lane_index(), 5) + shuffle_xor(thread_index(), 1));
  sum = exp2_approx(sum) + log2_approx(sum) + reciprocal(sum);
  sum += convert<Half>(sum) + convert<BFloat>(sum);
  sync_threads_named(1, 64);

  prefetch(in);
  Bytes16 bytes = load_global_16(far_address(in, cta_index() + num_ctas(), 16));
  bytes.w[0] += load_global_16_written(in).w[0];
  bytes.w[0] += trailing_zeros(bytes.w[1] | 1u) + shared_address(row);
  bytes.w[1] = __builtin_bit_cast(unsigned, sum);
  bytes.w[2] = any_in_warp(sum < 0.0f) ? 1u : 0u;
  store_shared_16(row, bytes);
  sync_warp();
  store_global_16(out + 16 * thread_index(), load_shared_16(row));

  fence_device();
  if (atomic_add(counters, 1) == num_ctas()) {
    bytes = load_written_16(in);
    store_global_8(reinterpret_cast<float*>(out), load_written(reinterpret_cast<const float*>(in)),
                   load_shared<float>(shared_place(row)));
    store_shared(shared_place(row), bytes);
  }
}

}  // namespace trencadis::ptx
