// 16-bit elements of extra tensors, read as float: `float bias = p.my_bias[i];`
#pragma once

#include "variant/math.h"

namespace trencadis::variant {

struct BFloat16 {
  unsigned short bits;
  TRENCADIS_FN operator float() const {  // NOLINT(google-explicit-constructor)
    return bit_cast<float>(static_cast<unsigned>(bits) << 16);
  }
};

struct Float16 {
  unsigned short bits;
  TRENCADIS_FN operator float() const {  // NOLINT(google-explicit-constructor)
    // The 15 low bits are moved to a float's exponent and mantissa; the product then mends the
    // exponent bias, subnormals included. Infinity and NaN are exponent 31.
    const unsigned magnitude = static_cast<unsigned>(bits & 0x7fffu) << 13;
    const float scaled = bit_cast<float>(magnitude) * 5.192296858534828e+33f;  // 2^112
    const unsigned special = magnitude >= (31u << 23) ? 0x7f800000u : 0u;
    const unsigned sign = static_cast<unsigned>(bits & 0x8000u) << 16;
    return bit_cast<float>(bit_cast<unsigned>(scaled) | special | sign);
  }
};

static_assert(sizeof(BFloat16) == 2 && sizeof(Float16) == 2);

}  // namespace trencadis::variant
