#include "serving/host_tensor.h"

#include <gtest/gtest.h>
#include <trencadis/error.h>

#include <cmath>

namespace trencadis::app {
namespace {

TEST(HostTensor, StartsAsNaNInEveryType) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const HostTensor tensor("a tensor", dtype, {2, 3});
    for (int i = 0; i < 6; ++i)
      EXPECT_TRUE(std::isnan(load_element(tensor.view().data(), dtype, i))) << to_string(dtype);
  }
}

TEST(HostTensor, WhatTheMachineCannotHoldIsAnError) {
  try {
    HostTensor("the key pool", DType::f32, {1 << 30, 1 << 20});
    FAIL() << "expected Error(out_of_capacity)";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::out_of_capacity);
    EXPECT_NE(std::string(error.what()).find("the key pool needs"), std::string::npos);
  }
}

TEST(HostTensor, LoadsSixteenBitValues) {
  const std::uint16_t f16[] = {0x0000, 0x3C00, 0xC000, 0x7BFF, 0x0001, 0x0400, 0x7C00};
  const float from_f16[] = {0.0f, 1.0f, -2.0f, 65504.0f, 0x1p-24f, 0x1p-14f, INFINITY};
  for (int i = 0; i < 7; ++i) EXPECT_EQ(load_element(f16, DType::f16, i), from_f16[i]);
  const std::uint16_t bf16[] = {0x3F80, 0xC040, 0x7F80};
  EXPECT_EQ(load_element(bf16, DType::bf16, 0), 1.0f);
  EXPECT_EQ(load_element(bf16, DType::bf16, 1), -3.0f);
  EXPECT_EQ(load_element(bf16, DType::bf16, 2), INFINITY);
}

TEST(FillNormal, IsNormalAndRoundedToNearest) {
  constexpr std::int64_t kCount = 100'000;
  const HostTensor exact("a tensor", DType::f32, {kCount});
  fill_normal(exact.view(), 42);
  double sum = 0.0, squares = 0.0;
  for (std::int64_t i = 0; i < kCount; ++i) {
    const double value = load_element(exact.view().data(), DType::f32, i);
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / kCount, 0.0, 0.02);
  EXPECT_NEAR(squares / kCount, 1.0, 0.02);

  for (const DType dtype : {DType::f16, DType::bf16}) {
    const HostTensor rounded("a tensor", dtype, {kCount});
    fill_normal(rounded.view(), 42);
    for (std::int64_t i = 0; i < kCount; ++i) {
      const double value = load_element(exact.view().data(), DType::f32, i);
      ASSERT_LE(std::fabs(load_element(rounded.view().data(), dtype, i) - value),
                unit_roundoff(dtype) * std::max(std::fabs(value), 0x1p-14))
          << to_string(dtype) << " of " << value;
    }
  }
}

}  // namespace
}  // namespace trencadis::app
