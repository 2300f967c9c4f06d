// The emulation of kernels/cuda/ptx/convert.h.
#pragma once

#include "contract/units.h"
#include "cuda/ptx/mma.h"
#include "simt/float16.h"

namespace trencadis::ptx {

template <class Element>
unsigned short from_float(float value) {
  return static_cast<unsigned short>(Format<Element>::narrow(value));
}

template <class Element>
unsigned pack(float low, float high) {
  return Format<Element>::narrow(high) << 16 | Format<Element>::narrow(low);
}

template <class Element>
float to_float(unsigned short bits) {
  return Format<Element>::widen(bits);
}

template <class Element>
float unpack_low(unsigned pair) {
  return Format<Element>::widen(pair & 0xffffu);
}

template <class Element>
float unpack_high(unsigned pair) {
  return Format<Element>::widen(pair >> 16);
}

}  // namespace trencadis::ptx
