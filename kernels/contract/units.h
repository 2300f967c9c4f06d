// Small words that every kernel header may use, on the host, in nvcc and in NVRTC.
#pragma once

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define TRENCADIS_FN __host__ __device__ __forceinline__
#else
// Always: functors are meant to disappear into the loop that calls them, and a loop that is
// compiled for a wider instruction set than its callee vectorises only what is inlined.
#define TRENCADIS_FN inline __attribute__((always_inline))
#endif

namespace trencadis::contract {

/// The mask bound that does not bind.
inline constexpr int kUnbounded = -1;

/// WorkItem::slot of an item that writes the final output.
inline constexpr int kWriteThrough = -1;

template <class Int>
TRENCADIS_FN constexpr Int ceil_div(Int a, Int b) {
  return (a + b - 1) / b;
}

}  // namespace trencadis::contract
