// Bit i of a packed mask is bit i % 8 of byte i / 8, least significant first.
#pragma once

#include <cstdint>
#include <cstring>

namespace trencadis::sparsity {

constexpr std::int64_t bytes_of_bits(std::int64_t bits) {
  return bits / 8 + (bits % 8 != 0);
}

inline void set_bit(std::uint8_t* bits, std::int64_t i) {
  bits[i / 8] = static_cast<std::uint8_t>(bits[i / 8] | (1u << (i % 8)));
}

inline bool get_bit(const std::uint8_t* bits, std::int64_t i) {
  return ((bits[i / 8] >> (i % 8)) & 1u) != 0;
}

/// Sets bits [begin, end).
inline void set_bits(std::uint8_t* bits, std::int64_t begin, std::int64_t end) {
  while (begin < end && begin % 8 != 0) set_bit(bits, begin++);
  const std::int64_t whole = (end - begin) / 8;
  if (whole > 0) {
    std::memset(bits + begin / 8, 0xff, static_cast<std::size_t>(whole));
    begin += 8 * whole;
  }
  while (begin < end) set_bit(bits, begin++);
}

}  // namespace trencadis::sparsity
