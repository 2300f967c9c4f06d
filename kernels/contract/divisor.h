// Division by a number that is known once a problem and needed once a token or a row block.
#pragma once

#include <cstdint>

#include "contract/units.h"

namespace trencadis::contract {

/// x / divisor for 0 <= x < 2^31 by one multiplication and one shift.
///
/// With l = ceil(log2 d), k = 31 + l and m = ceil(2^k / d): m d = 2^k + e with 0 <= e < d <= 2^l,
/// so x m / 2^k = x / d + x e / (d 2^k), and the error is below 1 / d because x e < 2^31 2^l = 2^k.
/// As x / d is at least 1 / d below the next integer, the floor is exact. m <= 2^32 + 1, so x m
/// fits 64 bits.
struct Divisor {
  std::uint64_t multiplier;
  std::int32_t shift;
  std::int32_t divisor;

  /// 1 <= divisor < 2^31.
  TRENCADIS_FN static constexpr Divisor of(std::int32_t divisor) {
    std::int32_t shift = 31;
    while ((std::int64_t{1} << (shift - 31)) < divisor) ++shift;
    const auto d = static_cast<std::uint64_t>(divisor);
    return {((std::uint64_t{1} << shift) + d - 1) / d, shift, divisor};
  }
  TRENCADIS_FN constexpr std::int32_t divide(std::int32_t x) const {
    return static_cast<std::int32_t>((static_cast<std::uint32_t>(x) * multiplier) >> shift);
  }
};
static_assert(sizeof(Divisor) == 16);

}  // namespace trencadis::contract
