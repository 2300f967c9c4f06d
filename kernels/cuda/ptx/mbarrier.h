// Barriers in shared memory on which one part of a CTA tells another that data is there, or that
// room is. A barrier goes from phase to phase, each complete after as many arrivals as it was made
// for; who waits says the parity of the phase, 0 for the first. sm_90.
#pragma once

#include "contract/units.h"
#include "cuda/ptx/memory.h"
#include "cuda/ptx/thread.h"

namespace trencadis::ptx {

/// By one thread, before a barrier of the CTA that makes it known. 8 bytes, aligned to them.
TRENCADIS_DEVICE void make_barrier(SharedAddress barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier.bits), "r"(arrivals)
               : "memory");
}

/// One arrival. What the thread wrote before is seen by who has waited for the phase.
TRENCADIS_DEVICE void arrive(SharedAddress barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier.bits) : "memory");
}

/// One arrival, when all copies (cp_async.h) that the thread has started are there. It says nothing
/// of what the thread has stored itself.
TRENCADIS_DEVICE void arrive_with_copies(SharedAddress barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier.bits)
               : "memory");
}

/// Until the phase of this parity is complete.
TRENCADIS_DEVICE void wait_phase(SharedAddress barrier, unsigned parity) {
  unsigned complete;
  do {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n"
        "}"
        : "=r"(complete)
        : "r"(barrier.bits), "r"(parity)
        : "memory");
  } while (complete == 0);
}

}  // namespace trencadis::ptx
