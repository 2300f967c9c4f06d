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
#include "cuda/ptx/warpgroup.h"
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

/// Copies the matrix, whose rows are whole slabs of 64 columns, to shared memory as products take
/// it: eight rows of one slab, of the next, and so on, then the next eight rows.
void store_swizzled(char* shared, const Matrix& matrix) {
  const int slabs = matrix.columns / 64;
  for (int i = ptx::thread_index(); i < matrix.rows * slabs * 8; i += ptx::cta_threads()) {
    const int row = i / (slabs * 8);
    const int chunk = i % (slabs * 8);
    const int place =
        row / 8 * slabs * 1024 + chunk / 8 * 1024 + row % 8 * 128 + (chunk % 8 ^ row % 8) * 16;
    ptx::Bytes16 bytes;
    std::memcpy(&bytes, &matrix.elements[row * matrix.columns + chunk * 8], sizeof bytes);
    ptx::store_shared_16(shared + place, bytes);
  }
}

/// Row and column of accumulator c of tile j, among the 64 rows of the warpgroup.
int row_of(int c) {
  return ptx::thread_index() / 32 * 16 + ptx::lane_index() / 4 + c / 2 * 8;
}
int column_of(int j, int c) {
  return 8 * j + ptx::lane_index() % 4 * 2 + c % 2;
}

template <class Element, int kTiles>
void check_rows(int slabs, std::uint64_t seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  Matrix a = random_matrix<Element>(64, 64 * slabs, random);
  Matrix b = random_matrix<Element>(8 * kTiles, 64 * slabs, random);
  std::vector<float> result(64 * 8 * kTiles);
  const int a_bytes = 64 * 128 * slabs;
  const int b_bytes = 8 * kTiles * 128 * slabs;
  simt::launch(
      {.threads = 128, .shared_bytes = static_cast<std::size_t>(a_bytes + b_bytes), .seed = seed},
      [&] {
        char* const shared = ptx::dynamic_shared();
        store_swizzled(shared, a);
        store_swizzled(shared + a_bytes, b);
        ptx::show_to_products();
        ptx::sync_cta();
        const auto at_a = ptx::SharedMatrix::at(ptx::shared_place(shared), 1024, slabs * 1024);
        const auto at_b =
            ptx::SharedMatrix::at(ptx::shared_place(shared + a_bytes), 1024, slabs * 1024);
        float d[kTiles][4];
        ptx::begin_products();
        for (int k = 0; k < 4 * slabs; ++k) {
          const int along = k / 4 * 1024 + k % 4 * 32;
          ptx::multiply_rows<Element, kTiles>(d, at_a + along, at_b + along, k != 0);
        }
        ptx::commit_products();
        ptx::wait_products<0>();
        ptx::accept(d);
        for (int j = 0; j < kTiles; ++j) {
          for (int c = 0; c < 4; ++c) result[row_of(c) * 8 * kTiles + column_of(j, c)] = d[j][c];
        }
      });
  for (int i = 0; i < 64; ++i) {
    for (int j = 0; j < 8 * kTiles; ++j) {
      double sum = 0;
      for (int k = 0; k < 64 * slabs; ++k) {
        sum += static_cast<double>(Elements<Element>::widen(a.at(i, k))) *
               static_cast<double>(Elements<Element>::widen(b.at(j, k)));
      }
      ASSERT_NEAR(result[i * 8 * kTiles + j], sum, 1e-3) << i << ", " << j << ", " << slabs;
    }
  }
}

TYPED_TEST(Instructions, MultiplyRowsIsTheMatrixProduct) {
  std::uint64_t seed = 0;
  for (const int slabs : {1, 2, 4}) {
    for (int i = 0; i < 3; ++i) check_rows<TypeParam, 8>(slabs, ++seed);
    for (int i = 0; i < 3; ++i) check_rows<TypeParam, 16>(slabs, ++seed);
  }
}

/// Columns from kTiles * 8 on, where there are as many, are others' work.
template <class Element, int kTiles, int kSlabs>
void check_columns(std::uint64_t seed) {
  constexpr int kTokens = 48;
  constexpr int kAll = 8 * kSlabs;
  std::mt19937 random(static_cast<unsigned>(seed));
  Matrix a = random_matrix<Element>(64, kTokens, random);
  Matrix b = random_matrix<Element>(kTokens, 64 * kSlabs, random);
  std::vector<float> result(64 * 8 * kAll);
  simt::launch({.threads = 128, .shared_bytes = kTokens * 128 * kSlabs, .seed = seed}, [&] {
    store_swizzled(ptx::dynamic_shared(), b);
    ptx::show_to_products();
    ptx::sync_cta();
    const auto at_b =
        ptx::SharedMatrix::at(ptx::shared_place(ptx::dynamic_shared()), 1024, kSlabs * 1024);
    unsigned rows[kTokens / 16][4];
    for (int k = 0; k < kTokens / 16; ++k) {
      for (int r = 0; r < 4; ++r) {
        const int row = row_of(r % 2 * 2);
        const int column = 16 * k + ptx::lane_index() % 4 * 2 + r / 2 * 8;
        rows[k][r] = a.pair(row, column, row, column + 1);
      }
    }
    float d[kAll][4];
    for (auto& tile : d) tile[0] = tile[1] = tile[2] = tile[3] = 1;
    ptx::begin_products();
    for (int k = 0; k < kTokens / 16; ++k) {
      const auto step = at_b + 2 * k * kSlabs * 1024;
      ptx::multiply_columns<Element, kTiles, 0>(d, rows[k], step);
      if constexpr (kAll > kTiles)
        ptx::multiply_columns<Element, kTiles, kTiles>(d, rows[k], step + kTiles / 8 * 1024);
    }
    ptx::commit_products();
    ptx::wait_products<0>();
    ptx::accept(d);
    for (int j = 0; j < kAll; ++j) {
      for (int c = 0; c < 4; ++c) result[row_of(c) * 8 * kAll + column_of(j, c)] = d[j][c];
    }
  });
  for (int i = 0; i < 64; ++i) {
    for (int j = 0; j < 8 * kAll; ++j) {
      double sum = 1;
      if (j < 16 * kTiles) {
        for (int k = 0; k < kTokens; ++k) {
          sum += static_cast<double>(Elements<Element>::widen(a.at(i, k))) *
                 static_cast<double>(Elements<Element>::widen(b.at(k, j)));
        }
      }
      ASSERT_NEAR(result[i * 8 * kAll + j], sum, 1e-3) << i << ", " << j << ", " << kSlabs;
    }
  }
}

TYPED_TEST(Instructions, MultiplyColumnsIsTheMatrixProduct) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    check_columns<TypeParam, 8, 1>(seed);
    check_columns<TypeParam, 8, 2>(seed);
    check_columns<TypeParam, 8, 4>(seed);
    check_columns<TypeParam, 16, 2>(seed);
    check_columns<TypeParam, 16, 4>(seed);
  }
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
    unsigned four[4];
    ptx::load_matrix_x4(four, shared + 16 * lane);
    for (int m = 0; m < 4; ++m) EXPECT_EQ(four[m], word(m, i, j, i, j + 1)) << m << " " << lane;
    ptx::load_matrix_x4_transposed(four, shared + 16 * lane);
    for (int m = 0; m < 4; ++m) EXPECT_EQ(four[m], word(m, j, i, j + 1, i)) << m << " " << lane;
  });
  EXPECT_EQ(simt::statistics().ldmatrix_phases, 8u);
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
  EXPECT_EQ(ptx::trailing_zeros(0x50u), 4);
}

}  // namespace
}  // namespace trencadis
