// Every combination of stock functors, on every instruction set that this machine has, against
// float64.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "backends/cpu/builtin_variants.h"
#include "cpu/variant_tiles.h"
#include "unit/variant/stock_fixture.h"

namespace trencadis::cpu {
namespace {

using testing::StockFixture;

constexpr codegen::ComponentSet kOnLogits = codegen::kAllComponents & ~codegen::kRope;
constexpr float kPoison = 12345.0f;

class StockOpsTest : public ::testing::TestWithParam<int> {
 protected:
  const StockOps& stock() const {
    return supported_stock_ops()[static_cast<std::size_t>(GetParam())];
  }
};

TEST(StockOps, ThisMachineHasSome) {
  ASSERT_FALSE(supported_stock_ops().empty());
}

TEST_P(StockOpsTest, LogitsOfEveryCombination) {
  constexpr int kStride = StockFixture::kKeys + 3;
  for (codegen::ComponentSet set = 0; set <= kOnLogits; ++set) {
    if ((set & codegen::kRope) != 0) continue;
    const VariantOps& ops = stock().find(set);
    ASSERT_EQ(ops.logits == nullptr, set == 0);
    if (set == 0) continue;
    for (bool use_softmax : {true, false}) {
      StockFixture f(set);
      std::vector<float> s = f.random_tile(f.tile.rows, kStride);
      const std::vector<float> before = s;
      ops.logits(f.args, f.tile, f.positions.data(), StockFixture::kKeys, s.data(), kStride,
                 use_softmax);
      for (int row = 0; row < f.tile.rows; ++row)
        for (int column = 0; column < kStride; ++column) {
          const auto i = static_cast<std::size_t>(row * kStride + column);
          if (column >= StockFixture::kKeys) {
            ASSERT_EQ(s[i], before[i]) << "beyond the tile's keys";
          } else if (!f.visible(set, row, column)) {
            ASSERT_EQ(s[i], use_softmax ? -std::numeric_limits<float>::infinity() : 0.0f)
                << codegen::stock_chain(set) << " row " << row << " column " << column;
          } else {
            const double exact = f.transformed(set, before[i], row, column);
            ASSERT_NEAR(s[i], exact, 1e-6 * (1 + std::fabs(exact)) + 4e-6)
                << codegen::stock_chain(set) << " row " << row << " column " << column;
          }
        }
    }
  }
}

struct RopeCase {
  bool interleaved;
  int rotary_dim;
  bool explicit_positions;
};

/// One row of `dim` elements, rotated in float64.
std::vector<double> rotated(const StockFixture& f, const float* row, int position,
                            const RopeCase& rope) {
  std::vector<double> result(row, row + StockFixture::kDim);
  const int rotary = rope.rotary_dim == 0 ? StockFixture::kDim : rope.rotary_dim;
  for (int pair = 0; pair < rotary / 2; ++pair) {
    const auto first = static_cast<std::size_t>(rope.interleaved ? 2 * pair : pair);
    const auto second =
        static_cast<std::size_t>(rope.interleaved ? 2 * pair + 1 : pair + rotary / 2);
    const double angle =
        position * static_cast<double>(f.rope_inv_freq[static_cast<std::size_t>(pair)]);
    result[first] = row[first] * std::cos(angle) - row[second] * std::sin(angle);
    result[second] = row[second] * std::cos(angle) + row[first] * std::sin(angle);
  }
  return result;
}

constexpr RopeCase kRopeCases[] = {{false, 0, false}, {true, 0, false}, {false, 16, false},
                                   {true, 16, false}, {false, 0, true}, {true, 10, true},
                                   {false, 2, false}, {true, 24, false}};

TEST_P(StockOpsTest, RopeTurnsQueriesByTheirPosition) {
  const VariantOps& ops = stock().find(codegen::kRope);
  constexpr int kStride = StockFixture::kDim + 5;
  for (const RopeCase& rope : kRopeCases) {
    StockFixture f(7);
    f.set_scalar("rope_dim", rope.rotary_dim);
    f.set_scalar("rope_interleaved", rope.interleaved);
    if (rope.explicit_positions) f.use_explicit_positions();
    std::vector<float> q = f.random_tile(f.tile.rows, kStride);
    const std::vector<float> before = q;
    ops.query(f.args, f.tile, q.data(), StockFixture::kDim, kStride);
    for (int row = 0; row < f.tile.rows; ++row) {
      const int position =
          rope.explicit_positions
              ? f.q_positions[static_cast<std::size_t>(StockFixture::kQoBegin + f.token(row))]
              : f.diagonal(row);
      const auto begin = static_cast<std::size_t>(row * kStride);
      const std::vector<double> exact = rotated(f, &before[begin], position, rope);
      for (std::size_t d = 0; d < exact.size(); ++d)
        ASSERT_NEAR(q[begin + d], exact[d], 4e-6) << "row " << row << " element " << d;
      for (std::size_t d = exact.size(); d < kStride; ++d)
        ASSERT_EQ(q[begin + d], before[begin + d]);
    }
  }
}

TEST_P(StockOpsTest, RopeTurnsKeysByTheirPosition) {
  const VariantOps& ops = stock().find(codegen::kRope | codegen::kAlibi);
  ASSERT_NE(ops.logits, nullptr);
  for (const RopeCase& rope : kRopeCases) {
    StockFixture f(8);
    f.set_scalar("rope_dim", rope.rotary_dim);
    f.set_scalar("rope_interleaved", rope.interleaved);
    if (rope.explicit_positions) f.use_explicit_positions();
    std::vector<float> k = f.random_tile(StockFixture::kKeys, StockFixture::kDim);
    const std::vector<float> before = k;
    ops.key(f.args, f.tile, f.positions.data(), StockFixture::kKeys, k.data(), StockFixture::kDim,
            StockFixture::kDim);
    for (int column = 0; column < StockFixture::kKeys; ++column) {
      const int key = f.positions[static_cast<std::size_t>(column)];
      const int position =
          rope.explicit_positions ? f.kv_positions[static_cast<std::size_t>(17 + key)] : key;
      const auto begin = static_cast<std::size_t>(column * StockFixture::kDim);
      const std::vector<double> exact = rotated(f, &before[begin], position, rope);
      for (std::size_t d = 0; d < exact.size(); ++d)
        ASSERT_NEAR(k[begin + d], exact[d], 4e-6) << "column " << column << " element " << d;
    }
  }
}

TEST(RopeFunctor, ElementFormEqualsRowForm) {  // devices use the one, the CPU the other
  for (const RopeCase& rope : kRopeCases) {
    StockFixture f(7);
    f.set_scalar("rope_dim", rope.rotary_dim);
    f.set_scalar("rope_interleaved", rope.interleaved);
    if (rope.explicit_positions) f.use_explicit_positions();
    const StockParams p = StockParams::load(f.args);
    const variant::RowCoord at = row_coord(f.tile, 3);
    const std::vector<float> row = f.random_tile(1, StockFixture::kDim);
    const std::vector<double> exact = rotated(f, row.data(), variant::Rope::position(p, at), rope);
    for (int d = 0; d < StockFixture::kDim; ++d)
      ASSERT_NEAR(
          variant::Rope::query_transform(p, SourceRow{row.data(), StockFixture::kDim}, d, at),
          exact[static_cast<std::size_t>(d)], 4e-6);
  }
}

TEST_P(StockOpsTest, CapOfAFarLogitIsTheCap) {  // M3: -3000 under a cap of 30 is -30 exactly
  StockFixture f(9);
  f.set_scalar("soft_cap", 30.0);
  f.tile.rows = 1;
  std::vector<float> s{-3000.0f, 3000.0f, 0.0f, kPoison};
  stock().find(codegen::kSoftCap).logits(f.args, f.tile, f.positions.data(), 3, s.data(), 4, true);
  EXPECT_EQ(s, (std::vector<float>{-30.0f, 30.0f, 0.0f, kPoison}));
}

TEST_P(StockOpsTest, HooksAreThoseOfTheFunctors) {
  using namespace variant;
  EXPECT_EQ(stock().find(0).hooks, 0u);
  EXPECT_EQ(stock().find(codegen::kRope).hooks, kQueryTransform | kKeyTransform);
  EXPECT_EQ(stock().find(codegen::kAllComponents).hooks,
            kQueryTransform | kKeyTransform | kLogitsTransform | kLogitsMask);
}

INSTANTIATE_TEST_SUITE_P(Targets, StockOpsTest,
                         ::testing::Range(0, static_cast<int>(supported_stock_ops().size())),
                         [](const auto& target) {
                           const auto i = static_cast<std::size_t>(target.param);
                           return std::string(supported_stock_ops()[i].target);
                         });

}  // namespace
}  // namespace trencadis::cpu
