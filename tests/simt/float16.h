// 16-bit elements as the device converts them, apart from the library's own conversions, so that
// tests may compare the two.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace trencadis::ptx {

struct Half {};
struct BFloat {};

template <class Element>
struct Format;

template <>
struct Format<BFloat> {
  static float widen(unsigned bits) { return std::bit_cast<float>(bits << 16); }
  static unsigned narrow(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
    return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  }
};

template <>
struct Format<Half> {
  /// Exponent and mantissa move to a float's places; the product mends the exponent's bias.
  static float widen(unsigned bits) {
    const std::uint32_t magnitude = (bits & 0x7fffu) << 13;
    const auto scaled = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
    const std::uint32_t special = magnitude >= 31u << 23 ? 0x7f800000u : 0u;
    return std::bit_cast<float>(scaled | special | (bits & 0x8000u) << 16);
  }
  static unsigned narrow(float value) {
    if (std::isnan(value)) return 0x7fff;
    const unsigned sign = std::signbit(value) ? 0x8000u : 0u;
    const float magnitude = std::fabs(value);
    if (magnitude >= 65520.0f) return sign | 0x7c00u;  // half a step beyond the largest
    // The step of the result's binade as a float; a sum with 2^23 steps rounds to whole ones.
    const int exponent = magnitude < 0x1p-14f ? -14 : std::ilogb(magnitude);
    const auto steps = static_cast<unsigned>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
    // A normal number has 1024 steps that its exponent field says, and a carry moves the field.
    return sign | (static_cast<unsigned>(exponent + 14) * 1024u + steps);
  }
};

}  // namespace trencadis::ptx
