// Copies from global to shared memory that pass by the registers. A thread waits for its own copies
// only: others see them after a barrier that follows the wait.
//
// sm_75 has no such copies. There each is done when it is issued, which is one of the moments that
// the contract allows, so the commits and the waits are nothing.
#pragma once

#include "contract/units.h"
#include "cuda/ptx/memory.h"
#include "cuda/ptx/thread.h"

namespace trencadis::ptx {

/// 16 bytes, past L1; zeros where !valid, and then nothing is read from `global`.
TRENCADIS_DEVICE void copy_async_16(SharedAddress shared, const void* global, bool valid) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  const unsigned bytes_read = valid ? 16u : 0u;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared.bits),
               "l"(__cvta_generic_to_global(global)), "r"(bytes_read)
               : "memory");
#else
  Bytes16 value{};
  if (valid) {
    asm volatile("ld.global.cg.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.w[0]), "=r"(value.w[1]), "=r"(value.w[2]), "=r"(value.w[3])
                 : "l"(__cvta_generic_to_global(global))
                 : "memory");
  }
  store_shared_16(shared, value);
#endif
}

TRENCADIS_DEVICE void copy_async_16(void* shared, const void* global, bool valid) {
  copy_async_16(shared_place(shared), global, valid);
}

/// 16 bytes of a longer run that is read whole: a line of it comes at once. sm_80.
TRENCADIS_DEVICE void copy_async_run_16(SharedAddress shared, const void* global) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(shared.bits),
               "l"(__cvta_generic_to_global(global))
               : "memory");
}

/// Closes a group over the copies since the last commit; it may be empty.
TRENCADIS_DEVICE void commit_copies() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/// Until at most the latest kPending groups are under way. Copies that no commit has closed over
/// are not waited for.
template <int kPending>
TRENCADIS_DEVICE void wait_copies() {
  static_assert(kPending >= 0);
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

}  // namespace trencadis::ptx
