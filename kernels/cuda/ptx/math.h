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

/// The upper 32 bits of the product: a division by a constant of the host's choosing.
TRENCADIS_DEVICE unsigned multiply_high(unsigned a, unsigned b) {
  return __umulhi(a, b);
}

}  // namespace trencadis::ptx
