// The elementary functions of hooks against float64.
#include "variant/math.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/float16.h"
#include "variant/element_types.h"

namespace trencadis::variant {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// |value - exact| in units of the float spacing at `exact`.
double ulps(float value, double exact) {
  const float near = static_cast<float>(exact);
  if (std::isinf(near) || near == 0.0f) return value == near ? 0.0 : 1e9;
  const double spacing = std::max<double>(std::nextafter(std::fabs(near), kInf) - std::fabs(near),
                                          std::numeric_limits<float>::denorm_min());
  return std::fabs(static_cast<double>(value) - exact) / spacing;
}

/// Visits floats of every exponent: every `step`-th bit pattern from -limit to limit.
template <class Visit>
void for_floats(float limit, std::uint32_t step, Visit visit) {
  for (std::uint32_t bits = 0; bits <= std::bit_cast<std::uint32_t>(limit); bits += step) {
    visit(std::bit_cast<float>(bits));
    visit(-std::bit_cast<float>(bits));
  }
}

TEST(VariantMath, ExpIsWithinTwoUlps) {
  double worst = 0;
  for_floats(87.3f, 997, [&](float x) { worst = std::max(worst, ulps(exp_f32(x), std::exp(x))); });
  EXPECT_LE(worst, 2.0);
}

TEST(VariantMath, ExpEndsAtZeroAndInfinity) {
  EXPECT_EQ(exp_f32(-kInf), 0.0f);
  EXPECT_EQ(exp_f32(-1e30f), 0.0f);
  EXPECT_EQ(exp_f32(kInf), kInf);
  EXPECT_EQ(exp_f32(89.0f), kInf);
  EXPECT_TRUE(std::isnan(exp_f32(kNan)));
  for (float x = -103.0f; x < -87.0f; x += 0.37f)  // subnormal results
    EXPECT_LE(ulps(exp_f32(x), std::exp(static_cast<double>(x))), 2.0) << x;
}

TEST(VariantMath, TanhIsWithinThreeUlps) {
  double worst = 0;
  for_floats(12.0f, 997,
             [&](float x) { worst = std::max(worst, ulps(tanh_f32(x), std::tanh(x))); });
  EXPECT_LE(worst, 3.0);
}

TEST(VariantMath, TanhEndsAtOne) {
  for (float x : {10.0f, 100.0f, 1e30f, kInf}) {
    EXPECT_EQ(tanh_f32(x), 1.0f);
    EXPECT_EQ(tanh_f32(-x), -1.0f);
  }
  EXPECT_TRUE(std::signbit(tanh_f32(-0.0f)));
  EXPECT_TRUE(std::isnan(tanh_f32(kNan)));
}

TEST(VariantMath, SigmoidIsWithinThreeUlps) {
  double worst = 0;
  for_floats(80.0f, 997, [&](float x) {
    worst = std::max(worst, ulps(sigmoid_f32(x), 1.0 / (1.0 + std::exp(-static_cast<double>(x)))));
  });
  EXPECT_LE(worst, 3.0);
  EXPECT_EQ(sigmoid_f32(-kInf), 0.0f);
  EXPECT_EQ(sigmoid_f32(kInf), 1.0f);
  EXPECT_TRUE(std::isnan(sigmoid_f32(kNan)));
}

TEST(VariantMath, RotationKeepsItsAccuracyFarOut) {
  // The angle of the last positions is near 2^31 radians: in float32 nothing would be left of it.
  for (int position : {0, 1, -1, 7, 4095, 131071, 1000003, 2147483647, -2147483647}) {
    for (float inv_freq : {1.0f, 0.75f, 0.1f, 1.2345e-3f, 1e-7f}) {
      const long double angle = static_cast<long double>(position) * inv_freq;
      const Rotation turn = rotation(position, inv_freq);
      const double tolerance = 1.5e-7 + std::fabs(static_cast<double>(angle)) * 4e-16;
      EXPECT_NEAR(turn.cos, std::cos(angle), tolerance) << position << " * " << inv_freq;
      EXPECT_NEAR(turn.sin, std::sin(angle), tolerance) << position << " * " << inv_freq;
    }
  }
}

TEST(VariantMath, RotationGoesRoundTheCircle) {
  for (int position = -2000; position <= 2000; ++position) {
    const Rotation turn = rotation(position, 0.01f);
    const double angle = position * static_cast<double>(0.01f);
    ASSERT_NEAR(turn.cos, std::cos(angle), 1.5e-7) << position;
    ASSERT_NEAR(turn.sin, std::sin(angle), 1.5e-7) << position;
  }
}

TEST(VariantMath, SixteenBitElementsReadAsTheirValue) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float f16 = Float16{half};
    const float bf16 = BFloat16{half};
    if (std::isnan(base::f16_to_float(half))) {
      ASSERT_TRUE(std::isnan(f16)) << bits;
    } else {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(f16),
                std::bit_cast<std::uint32_t>(base::f16_to_float(half)))
          << bits;
    }
    ASSERT_EQ(std::bit_cast<std::uint32_t>(bf16), bits << 16);
  }
}

}  // namespace
}  // namespace trencadis::variant
