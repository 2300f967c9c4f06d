// The emulation of kernels/cuda/ptx/sync.h. Memory has one order here; each access is a chance for
// other threads to run.
#pragma once

#include "contract/units.h"
#include "cuda/ptx/thread.h"
#include "simt/emulator.h"

namespace trencadis::ptx {

inline void launch_dependents() {}
inline void wait_for_dependencies() {}

inline void fence_device() {
  simt::yield("fence_device");
}

inline int atomic_add(int* address, int value) {
  simt::yield("atomic_add");
  const int before = *address;
  *address = before + value;
  return before;
}

}  // namespace trencadis::ptx
