// The emulation of kernels/cuda/ptx/cp_async.h.
#pragma once

#include "contract/units.h"
#include "cuda/ptx/memory.h"
#include "cuda/ptx/thread.h"
#include "simt/emulator.h"

namespace trencadis::ptx {

inline void copy_async_16(void* shared, const void* global, bool valid) {
  simt::copy_async_16("copy_async_16", shared, global, valid);
}

inline void copy_async_16(SharedAddress shared, const void* global, bool valid) {
  copy_async_16(detail::pointer_to(shared), global, valid);
}

inline void copy_async_run_16(SharedAddress shared, const void* global) {
  simt::copy_async_16("copy_async_run_16", detail::pointer_to(shared), global, true);
}

inline void commit_copies() {
  simt::commit_copies();
}

template <int kPending>
void wait_copies() {
  static_assert(kPending >= 0);
  simt::wait_copies(kPending);
}

}  // namespace trencadis::ptx
