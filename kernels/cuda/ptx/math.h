// Approximations of the special function unit. Subnormal arguments and results are zeros.
#pragma once

#include "contract/units.h"
#include "cuda/ptx/thread.h"

namespace trencadis::ptx {

/// 2^x to 2 ulp; +0 at minus infinity: a masked logit weighs nothing, without a branch.
TRENCADIS_DEVICE float exp2_approx(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

/// Minus infinity at zero, NaN below.
TRENCADIS_DEVICE float log2_approx(float x) {
  float result;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

/// 1 / x to 1 ulp; infinity, with the sign, at zero.
TRENCADIS_DEVICE float reciprocal(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

/// Zeros below the lowest one of a word that is not 0.
TRENCADIS_DEVICE int trailing_zeros(unsigned word) {
  return __ffs(static_cast<int>(word)) - 1;
}

}  // namespace trencadis::ptx
