// The emulation of kernels/cuda/ptx/math.h: the C library's functions, and zeros for subnormals.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "contract/units.h"
#include "cuda/ptx/thread.h"

namespace trencadis::ptx {
namespace detail {

inline float flush(float x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x;
}

}  // namespace detail

inline float exp2_approx(float x) {
  return detail::flush(std::exp2(detail::flush(x)));
}

inline float log2_approx(float x) {
  return std::log2(detail::flush(x));
}

inline float reciprocal(float x) {
  return detail::flush(1.0f / detail::flush(x));
}

inline int trailing_zeros(unsigned word) {
  return std::countr_zero(word);
}

}  // namespace trencadis::ptx
