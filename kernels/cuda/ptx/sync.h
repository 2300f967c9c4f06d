// Order between CTAs and between kernels.
#pragma once

#include "contract/units.h"
#include "cuda/ptx/thread.h"

namespace trencadis::ptx {

/// Lets the next kernel of the stream start once every CTA of this one has said so. It says nothing
/// of memory: the next kernel waits for that. Below sm_90 kernels do not overlap.
TRENCADIS_DEVICE void launch_dependents() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// Until the kernel before this one has ended and its writes are visible.
TRENCADIS_DEVICE void wait_for_dependencies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

TRENCADIS_DEVICE void fence_device() {
  __threadfence();
}

/// The value before; relaxed, so a fence orders it.
TRENCADIS_DEVICE int atomic_add(int* address, int value) {
  return atomicAdd(address, value);
}

}  // namespace trencadis::ptx
