// Each function of every table of inner loops against plain loops in float64.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "backends/cpu/microkernels.h"
#include "cpu/launch.h"
#include "problem.h"

namespace trencadis::testing {
namespace {

constexpr Storage kStorages[] = {Storage::f32, Storage::f16, Storage::bf16};

/// Floats on a cache line, as the kernels are given them.
class Floats {
 public:
  explicit Floats(std::int64_t n, float fill = NAN)
      : memory_(static_cast<std::size_t>(n) + 16, fill) {}
  float* data() {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    return memory_.data() + (64 - address % 64) % 64 / sizeof(float);
  }
  float& operator[](std::int64_t i) { return data()[i]; }

 private:
  std::vector<float> memory_;
};

class MicrokernelTest : public ::testing::TestWithParam<const cpu::Microkernels*> {
 protected:
  const cpu::Microkernels& simd() const { return *GetParam(); }
  double normal() { return distribution_(random_); }
  void randomise(Floats& floats, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) floats[i] = static_cast<float>(normal());
  }

  /// Rows of `dim` elements `pitch` apart, and pointers to them.
  struct Rows {
    Rows(Storage storage, int count, int dim, std::int64_t tokens_apart)
        : head_pitch(dim), pitch(tokens_apart), buffer(storage, count * pitch, NAN) {
      const std::int64_t bytes = cpu::size_of(storage);
      for (int i = 0; i < count; ++i)
        pointers.push_back(static_cast<char*>(buffer.data()) + i * pitch * bytes);
    }
    double get(int token, int head, int d) const {
      return buffer.get(token * pitch + head * head_pitch + d);
    }
    std::int64_t head_pitch, pitch;
    Buffer buffer;
    std::vector<const void*> pointers;
  };

  Rows make_rows(Storage storage, int count, int heads, int dim) {
    Rows rows(storage, count, dim, heads * dim + 3);  // rows need no alignment
    for (int i = 0; i < count; ++i)
      for (int e = 0; e < heads * dim; ++e) rows.buffer.set(i * rows.pitch + e, normal());
    return rows;
  }

 private:
  std::mt19937 random_{7};
  std::normal_distribution<double> distribution_;
};

TEST_P(MicrokernelTest, RowsConvertAndRoundToNearestEven) {
  const double values[] = {0.0,        -0.0,    1.0,    -1.5,     1.0 / 3,   65504.0,
                           65519.0,    65520.0, 1e30,   -1e30,    6.1e-5,    6e-8,
                           2.9e-8,     1e-40,   3.3e38, INFINITY, -INFINITY, 1.00390625,
                           1.01171875, 2049.0,  2051.0, NAN};
  constexpr int n = std::size(values);
  for (const Storage storage : kStorages)
    for (int length = 0; length <= n; ++length) {
      Floats in(n), back(n, 5.0f);
      for (int i = 0; i < n; ++i) in[i] = static_cast<float>(values[i]);
      Buffer stored(storage, n, 0.0), expected(storage, n, 0.0);
      for (int i = 0; i < length; ++i) expected.set(i, in[i]);
      simd().store_row[cpu::index(storage)](in.data(), length, stored.data());
      simd().load_row[cpu::index(storage)](stored.data(), length, back.data());
      for (int i = 0; i < n; ++i) {
        const double want = i < length ? expected.get(i) : 5.0;
        EXPECT_TRUE(std::isnan(want) ? std::isnan(back[i]) : back[i] == want)
            << values[i] << " became " << back[i] << ", expected " << want;
      }
    }
}

TEST_P(MicrokernelTest, LoadOrderComesBack) {
  const int n = 3 * simd().dim_multiple;
  for (const Storage storage : kStorages) {
    Floats in(n), ordered(n), out(n);
    randomise(in, n);
    simd().to_load_order[cpu::index(storage)](in.data(), n, ordered.data());
    simd().from_load_order[cpu::index(storage)](ordered.data(), n, out.data());
    for (int i = 0; i < n; ++i) ASSERT_EQ(in[i], out[i]);
  }
}

TEST_P(MicrokernelTest, ScoreAndAccumulateAnyRowsKeysAndHeads) {
  for (const Storage storage : kStorages)
    for (const int rows : {1, 2, 3, 4, 5, 7, 9, 11})
      for (const int heads : {1, 3})
        for (const int keys : {1, 2, 7, 8, 9, 33}) {
          const int dim = 2 * simd().dim_multiple;
          const Rows pool = make_rows(storage, keys, heads, dim);
          const cpu::PoolRows where{
              pool.pointers.data(), keys, heads, dim * cpu::size_of(storage), true, 0, nullptr, 0};
          const int all = rows * heads, stride = 64;
          Floats q(all * dim), ordered(all * dim), s(all * stride), rescale(all), o(all * dim);
          randomise(q, all * dim), randomise(o, all * dim), randomise(rescale, all);
          Floats before(all * dim);
          for (int r = 0; r < all; ++r) {
            simd().to_load_order[cpu::index(storage)](&q[r * dim], dim, &ordered[r * dim]);
            simd().to_load_order[cpu::index(storage)](&o[r * dim], dim, &before[r * dim]);
          }
          simd().score[cpu::index(storage)](
              {ordered.data(), dim, rows, dim, s.data(), stride, where});
          simd().accumulate[cpu::index(storage)](
              {s.data(), stride, rows, dim, rescale.data(), before.data(), dim, where});
          for (int r = 0; r < all; ++r) {
            for (int k = 0; k < keys; ++k) {
              double dot = 0;
              for (int d = 0; d < dim; ++d)
                dot += double{q[r * dim + d]} * pool.get(k, r / rows, d);
              ASSERT_NEAR(s[r * stride + k], dot, 1e-4) << rows << " rows, " << keys << " keys";
            }
            Floats after(dim);
            simd().from_load_order[cpu::index(storage)](&before[r * dim], dim, after.data());
            for (int d = 0; d < dim; ++d) {
              double sum = double{o[r * dim + d]} * rescale[r];
              for (int k = 0; k < keys; ++k)
                sum += double{s[r * stride + k]} * pool.get(k, r / rows, d);
              ASSERT_NEAR(after[d], sum, 1e-3) << rows << " rows, " << keys << " keys";
            }
          }
        }
}

TEST_P(MicrokernelTest, PackedProductsOfAnyShape) {
  const int width = simd().panel_width;
  for (const Storage storage : kStorages)
    for (const int rows : {1, 5, 6, 7, 11, 12, 13, 32, 128})
      for (const int keys : {1, 3, 4, 31, 64}) {
        const int dim = simd().dim_multiple;
        const Rows pool = make_rows(storage, keys, 1, dim);
        const cpu::NextRows none{nullptr, 0, 0};
        Floats panels(128 * (dim + 16) + 16 * 128);
        const int stride = 128;
        Floats q(rows * dim), s(rows * stride), rescale(rows, 0.5f), o(rows * dim),
            before(rows * dim);
        randomise(q, rows * dim), randomise(o, rows * dim);
        std::copy_n(o.data(), rows * dim, before.data());
        simd().pack_keys[cpu::index(storage)](pool.pointers.data(), keys, dim, panels.data(), none);
        simd().gemm({q.data(), dim, rows, dim, panels.data(), (keys + width - 1) / width, nullptr,
                     s.data(), stride});
        simd().pack_values[cpu::index(storage)](pool.pointers.data(), keys, dim, panels.data(),
                                                none);
        simd().gemm({s.data(), stride, rows, keys, panels.data(), dim / width, rescale.data(),
                     o.data(), dim});
        for (int r = 0; r < rows; ++r) {
          for (int k = 0; k < cpu::round_up(keys, width); ++k) {
            double dot = 0;
            for (int d = 0; d < dim && k < keys; ++d)
              dot += double{q[r * dim + d]} * pool.get(k, 0, d);
            ASSERT_NEAR(s[r * stride + k], dot, 1e-4) << rows << " rows, " << keys << " keys";
          }
          for (int d = 0; d < dim; ++d) {
            double sum = double{before[r * dim + d]} * 0.5;
            for (int k = 0; k < keys; ++k) sum += double{s[r * stride + k]} * pool.get(k, 0, d);
            ASSERT_NEAR(o[r * dim + d], sum, 1e-3) << rows << " rows, " << keys << " keys";
          }
        }
      }
}

TEST_P(MicrokernelTest, SoftmaxStepIsExactAtTheEdges) {
  const int padded = simd().panel_width;
  const int cols = padded - 1;
  Floats s(4 * padded), row_max(4), row_sum(4), rescale(4);
  const auto fill_row = [&](int r, float value) { std::fill_n(&s[r * padded], cols, value); };
  fill_row(0, -INFINITY);  // nothing visible, nothing seen before
  row_max[0] = -INFINITY, row_sum[0] = 0;
  fill_row(1, -INFINITY);  // nothing visible now
  row_max[1] = 2, row_sum[1] = 3;
  fill_row(2, -3000);  // far from zero, all equal
  row_max[2] = -INFINITY, row_sum[2] = 0;
  fill_row(3, -1000);
  s[3 * padded] = 1000;
  row_max[3] = 500, row_sum[3] = 7;
  simd().softmax(
      {s.data(), padded, 4, cols, padded, row_max.data(), row_sum.data(), rescale.data()});

  EXPECT_EQ(row_sum[0], 0);
  EXPECT_EQ(row_max[0], -INFINITY);
  EXPECT_EQ(row_sum[1], 3);
  EXPECT_EQ(rescale[1], 1);
  EXPECT_EQ(row_sum[2], static_cast<float>(cols));
  EXPECT_EQ(row_max[2], -3000);
  EXPECT_EQ(row_sum[3], 1);
  EXPECT_EQ(rescale[3], 0);
  for (int r = 0; r < 4; ++r) EXPECT_EQ(s[r * padded + cols], 0) << "padding of row " << r;
  for (int c = 0; c < cols; ++c) EXPECT_EQ(s[c], 0);
}

TEST_P(MicrokernelTest, ExponentialIsCloseEverywhere) {
  const int padded = 4 * simd().panel_width;
  double worst = 0;
  for (double start = 0; start > -87; start -= 0.37) {
    Floats s(padded), in(padded), row_max(1, 0.0f), row_sum(1, 0.0f), rescale(1);
    for (int c = 0; c < padded; ++c)
      s[c] = in[c] = static_cast<float>(std::max(-87.0, start - c * 0.37 / padded));
    simd().softmax(
        {s.data(), padded, 1, padded, padded, row_max.data(), row_sum.data(), rescale.data()});
    for (int c = 0; c < padded; ++c) {
      const double want = std::exp(double{in[c]});
      worst = std::max(worst, std::abs(s[c] - want) / want);
    }
  }
  EXPECT_LT(worst, 2.5e-7);  // two units in the last place
}

INSTANTIATE_TEST_SUITE_P(Targets, MicrokernelTest,
                         ::testing::ValuesIn(cpu::supported_microkernels().begin(),
                                             cpu::supported_microkernels().end()),
                         [](const auto& table) { return std::string(table.param->target); });

}  // namespace
}  // namespace trencadis::testing
