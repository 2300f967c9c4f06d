// Small words that every kernel header may use, on the host, in nvcc and in NVRTC.
#pragma once

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define TRENCADIS_FN __host__ __device__ __forceinline__
#else
#define TRENCADIS_FN inline
#endif

namespace trencadis::contract {

/// The mask bound that does not bind.
inline constexpr int kUnbounded = -1;

/// WorkItem::slot of an item that writes the final output.
inline constexpr int kWriteThrough = -1;

template <class Int>
constexpr Int ceil_div(Int a, Int b) {
  return (a + b - 1) / b;
}

}  // namespace trencadis::contract
