// The emulation of kernels/cuda/ptx/mbarrier.h.
#pragma once

#include "contract/units.h"
#include "cuda/ptx/memory.h"
#include "cuda/ptx/thread.h"
#include "simt/emulator.h"

namespace trencadis::ptx {

inline void make_barrier(SharedAddress barrier, int arrivals) {
  simt::make_barrier(detail::pointer_to(barrier), arrivals);
}

inline void arrive(SharedAddress barrier) {
  simt::arrive(detail::pointer_to(barrier));
}

inline void arrive_with_copies(SharedAddress barrier) {
  simt::arrive_with_copies(detail::pointer_to(barrier));
}

inline void wait_phase(SharedAddress barrier, unsigned parity) {
  simt::wait_phase(detail::pointer_to(barrier), parity);
}

}  // namespace trencadis::ptx
