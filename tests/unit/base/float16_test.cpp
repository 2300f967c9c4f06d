#include "base/float16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace trencadis::base {
namespace {

using ToFloat = float (*)(std::uint16_t);
using FromFloat = std::uint16_t (*)(float);

struct Format {
  const char* name;
  ToFloat to_float;
  FromFloat from_float;
};

class Float16 : public ::testing::TestWithParam<Format> {};

INSTANTIATE_TEST_SUITE_P(Formats, Float16,
                         ::testing::Values(Format{"bf16", bf16_to_float, float_to_bf16},
                                           Format{"f16", f16_to_float, float_to_f16}),
                         [](const auto& test) { return test.param.name; });

TEST_P(Float16, EveryPatternSurvivesTheRoundTrip) {
  for (unsigned bits = 0; bits <= 0xffff; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    const float value = GetParam().to_float(pattern);
    const std::uint16_t back = GetParam().from_float(value);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(GetParam().to_float(back))) << bits;
      EXPECT_EQ(back & 0x8000u, pattern & 0x8000u) << bits;
    } else {
      EXPECT_EQ(back, pattern) << bits;
    }
  }
}

// Between two neighbours: below the middle goes down, above it goes up, the middle to the even one.
TEST_P(Float16, RoundsToNearestEven) {
  for (unsigned bits = 0; bits < 0x7fff; ++bits) {
    const auto low = static_cast<std::uint16_t>(bits), high = static_cast<std::uint16_t>(bits + 1);
    const double a = GetParam().to_float(low), b = GetParam().to_float(high);
    if (!std::isfinite(a) || !std::isfinite(b)) continue;
    const auto middle = static_cast<float>((a + b) / 2);
    ASSERT_EQ(middle, (a + b) / 2) << "the middle is exact in float";
    const std::uint16_t even = (bits & 1u) == 0 ? low : high;
    EXPECT_EQ(GetParam().from_float(middle), even) << bits;
    EXPECT_EQ(GetParam().from_float(std::nextafter(middle, -1.0f)), low) << bits;
    EXPECT_EQ(GetParam().from_float(std::nextafter(middle, HUGE_VALF)), high) << bits;
    EXPECT_EQ(GetParam().from_float(-middle), even | 0x8000u) << bits;
  }
}

TEST_P(Float16, OverflowGoesToInfinityAndNaNStaysNaN) {
  EXPECT_EQ(GetParam().to_float(GetParam().from_float(std::numeric_limits<float>::max())),
            HUGE_VALF);
  EXPECT_EQ(GetParam().to_float(GetParam().from_float(-HUGE_VALF)), -HUGE_VALF);
  // A NaN whose payload lies in the bits that are cut.
  EXPECT_TRUE(std::isnan(
      GetParam().to_float(GetParam().from_float(std::bit_cast<float>(std::uint32_t{0x7f800001})))));
}

TEST(Float16Limits, HalfOverflowsFromHalfAnUlpAboveItsLargestValue) {
  EXPECT_EQ(f16_to_float(float_to_f16(65519.996f)), 65504.0f);
  EXPECT_EQ(f16_to_float(float_to_f16(65520.0f)), HUGE_VALF);
  EXPECT_EQ(float_to_f16(0x1p-25f), 0u) << "a tie with zero goes to zero";
  EXPECT_EQ(float_to_f16(0x1.8p-25f), 1u);
}

}  // namespace
}  // namespace trencadis::base
