// Division by a number that is known once a problem and needed once a row block.
#pragma once

#include <bit>
#include <cstdint>

namespace trencadis::planner {

/// x / divisor for 0 <= x < 2^31 by one multiplication and one shift.
///
/// With l = ceil(log2 d), k = 31 + l and m = ceil(2^k / d): m d = 2^k + e with 0 <= e < d <= 2^l,
/// so x m / 2^k = x / d + x e / (d 2^k), and the error is below 1 / d because x e < 2^31 2^l = 2^k.
/// As x / d is at least 1 / d below the next integer, the floor is exact. m <= 2^32 + 1, so x m
/// fits 64 bits.
class Divisor {
 public:
  explicit constexpr Divisor(std::uint32_t divisor)
      : shift_(31 + std::bit_width(divisor - 1)),
        multiplier_(((std::uint64_t{1} << shift_) + divisor - 1) / divisor) {}

  constexpr std::int32_t divide(std::int32_t x) const {
    return static_cast<std::int32_t>((static_cast<std::uint64_t>(x) * multiplier_) >> shift_);
  }

 private:
  int shift_;
  std::uint64_t multiplier_;
};

}  // namespace trencadis::planner
