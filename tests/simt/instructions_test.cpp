// The emulated instructions against their definitions, which are written here a second time in the
// plainest form, on whole matrices.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/float16.h"
#include "cuda/ptx/convert.h"
#include "cuda/ptx/ldmatrix.h"
#include "cuda/ptx/math.h"
#include "cuda/ptx/memory.h"
#include "cuda/ptx/mma.h"
#include "cuda/ptx/thread.h"
#include "simt/launch.h"

namespace trencadis {
namespace {

template <class Element>
struct Elements;
template <>
struct Elements<ptx::Half> {
  static std::uint16_t narrow(float x) { return base::float_to_f16(x); }
  static float widen(std::uint16_t bits) { return base::f16_to_float(bits); }
};
template <>
struct Elements<ptx::BFloat> {
  static std::uint16_t narrow(float x) { return base::float_to_bf16(x); }
  static float widen(std::uint16_t bits) { return base::bf16_to_float(bits); }
};

template <class Element>
class Instructions : public ::testing::Test {};
using Both = ::testing::Types<ptx::Half, ptx::BFloat>;
TYPED_TEST_SUITE(Instructions, Both);

struct Matrix {
  int rows, columns;
  std::vector<std::uint16_t> elements = std::vector<std::uint16_t>(rows * columns);

  std::uint16_t& at(int row, int column) { return elements[row * columns + column]; }
  unsigned pair(int row, int column, int next_row, int next_column) {
    return at(row, column) | static_cast<unsigned>(at(next_row, next_column)) << 16;
  }
};

template <class Element>
Matrix random_matrix(int rows, int columns, std::mt19937& random) {
  std::normal_distribution<float> normal;
  Matrix matrix{rows, columns};
  for (auto& element : matrix.elements) element = Elements<Element>::narrow(normal(random));
  return matrix;
}

TYPED_TEST(Instructions, MmaIsTheMatrixProduct) {
  std::mt19937 random(1);
  Matrix a = random_matrix<TypeParam>(16, 16, random);
  Matrix b = random_matrix<TypeParam>(16, 8, random);
  float d[16][8];
  simt::launch({.seed = 3}, [&] {
    const int g = ptx::lane_index() / 4;
    const int t = ptx::lane_index() % 4 * 2;
    const unsigned a_registers[4] = {a.pair(g, t, g, t + 1), a.pair(g + 8, t, g + 8, t + 1),
                                     a.pair(g, t + 8, g, t + 9),
                                     a.pair(g + 8, t + 8, g + 8, t + 9)};
    float sums[4] = {1, 2, 3, 4};
    for (int twice = 0; twice < 2; ++twice) {
      ptx::mma_16x8x16<TypeParam>(sums, a_registers, b.pair(t, g, t + 1, g),
                                  b.pair(t + 8, g, t + 9, g));
    }
    d[g][t] = sums[0] - 1;
    d[g][t + 1] = sums[1] - 2;
    d[g + 8][t] = sums[2] - 3;
    d[g + 8][t + 1] = sums[3] - 4;
  });
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 8; ++j) {
      double sum = 0;
      for (int k = 0; k < 16; ++k) {
        sum += static_cast<double>(Elements<TypeParam>::widen(a.at(i, k))) *
               static_cast<double>(Elements<TypeParam>::widen(b.at(k, j)));
      }
      EXPECT_NEAR(d[i][j], 2 * sum, 1e-4) << i << ", " << j;
    }
  }
  EXPECT_EQ(simt::statistics().mma, 2u);
}

TYPED_TEST(Instructions, ConversionsAgreeWithTheLibrarys) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const auto element = static_cast<std::uint16_t>(bits);
    const float value = Elements<TypeParam>::widen(element);
    const float converted = ptx::to_float<TypeParam>(element);
    ASSERT_TRUE(converted == value || (std::isnan(converted) && std::isnan(value))) << bits;
    ASSERT_EQ(std::signbit(converted), std::signbit(value)) << bits;
    ASSERT_EQ(ptx::from_float<TypeParam>(value), std::isnan(value) ? 0x7fff : bits) << bits;
  }
  std::mt19937 random(2);
  for (int round = 0; round < 200000; ++round) {
    float low, high;
    // Half of them near the range of float16, where the other half seldom falls.
    const std::uint32_t words[2] = {
        static_cast<std::uint32_t>(random()),
        0x38000000u + static_cast<std::uint32_t>(random()) % 0x10000000u};
    std::memcpy(&low, &words[0], 4);
    std::memcpy(&high, &words[1], 4);
    if (std::isnan(low)) continue;
    const unsigned pair = ptx::pack<TypeParam>(low, high);
    ASSERT_EQ(pair & 0xffffu, Elements<TypeParam>::narrow(low)) << low;
    ASSERT_EQ(pair >> 16, Elements<TypeParam>::narrow(high)) << high;
    ASSERT_EQ(ptx::unpack_high<TypeParam>(pair), Elements<TypeParam>::widen(pair >> 16)) << high;
  }
}

/// Four matrices in rows of `pitch` bytes whose elements say where they are.
void fill(char* shared, int pitch) {
  for (int row = ptx::lane_index(); row < 32; row += 32) {
    for (int column = 0; column < 8; ++column) {
      const auto element = static_cast<std::uint16_t>(row * 100 + column);
      std::memcpy(shared + row * pitch + 2 * column, &element, 2);
    }
  }
  ptx::sync_warp();
}

TEST(Ldmatrix, DealsRowsToLanes) {
  simt::launch({.shared_bytes = 512}, [&] {
    char* const shared = ptx::dynamic_shared();
    fill(shared, 16);
    const int lane = ptx::lane_index();
    const auto word = [](int matrix, int row, int column, int next_row, int next_column) {
      return static_cast<unsigned>((matrix * 8 + row) * 100 + column) |
             static_cast<unsigned>((matrix * 8 + next_row) * 100 + next_column) << 16;
    };
    const int i = lane / 4;
    const int j = lane % 4 * 2;
    unsigned four[4], two[2];
    ptx::load_matrix_x4(four, shared + 16 * lane);
    for (int m = 0; m < 4; ++m) EXPECT_EQ(four[m], word(m, i, j, i, j + 1)) << m << " " << lane;
    ptx::load_matrix_x4_transposed(four, shared + 16 * lane);
    for (int m = 0; m < 4; ++m) EXPECT_EQ(four[m], word(m, j, i, j + 1, i)) << m << " " << lane;
    ptx::load_matrix_x2(two, shared + 16 * (lane % 16));
    for (int m = 0; m < 2; ++m) EXPECT_EQ(two[m], word(m, i, j, i, j + 1)) << m << " " << lane;
    ptx::load_matrix_x2_transposed(two, shared + 16 * (lane % 16));
    for (int m = 0; m < 2; ++m) EXPECT_EQ(two[m], word(m, j, i, j + 1, i)) << m << " " << lane;
  });
  EXPECT_EQ(simt::statistics().ldmatrix_phases, 12u);
  EXPECT_EQ(simt::statistics().ldmatrix_conflicts, 0u);
}

TEST(Ldmatrix, CountsConflictsOfBanks) {
  const auto conflicts = [](int pitch) {
    simt::launch({.shared_bytes = 32 * 256}, [pitch] {
      unsigned r[4];
      ptx::load_matrix_x4(r, ptx::dynamic_shared() + pitch * ptx::lane_index());
    });
    return simt::statistics().ldmatrix_conflicts;
  };
  EXPECT_EQ(conflicts(128), 4u * 7);  // all rows in the same four banks
  EXPECT_EQ(conflicts(64), 4u * 3);
  EXPECT_EQ(conflicts(32), 4u * 1);
  EXPECT_EQ(conflicts(144), 0u);  // a padded pitch
  EXPECT_EQ(conflicts(0), 0u);    // the same row for all is a broadcast
}

TEST(Math, SpecialValues) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float tiny = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(ptx::exp2_approx(-infinity), 0.0f);
  EXPECT_FALSE(std::signbit(ptx::exp2_approx(-infinity)));
  EXPECT_EQ(ptx::exp2_approx(-140.0f), 0.0f);  // subnormal
  EXPECT_EQ(ptx::exp2_approx(3.0f), 8.0f);
  EXPECT_EQ(ptx::log2_approx(tiny), -infinity);
  EXPECT_TRUE(std::isnan(ptx::log2_approx(-1.0f)));
  EXPECT_EQ(ptx::reciprocal(-tiny), -infinity);
  EXPECT_EQ(ptx::reciprocal(4.0f), 0.25f);
  EXPECT_EQ(ptx::multiply_high(0xffffffffu, 0xffffffffu), 0xfffffffeu);
}

}  // namespace
}  // namespace trencadis
