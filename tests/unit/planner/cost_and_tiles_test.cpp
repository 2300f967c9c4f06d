#include <gtest/gtest.h>
#include <trencadis/trencadis.h>

#include <random>

#include "contract/divisor.h"
#include "planner/cost_model.h"
#include "planner/tile_policy.h"
#include "support/expect_error.h"
#include "unit/planner/plan_cases.h"

namespace trencadis::planner {
namespace {

using testing::expect_error;

TEST(Divisor, AgreesWithDivision) {
  std::mt19937 random(1);
  const auto expect_equal = [](std::int32_t x, std::uint32_t d) {
    EXPECT_EQ(contract::Divisor::of(static_cast<std::int32_t>(d)).divide(x),
              static_cast<std::int32_t>(static_cast<std::uint32_t>(x) / d))
        << x << " / " << d;
  };
  for (std::uint32_t d = 1; d <= 300; ++d) {
    for (const std::int64_t x :
         {0L, 1L, d - 1L, 1L * d, d + 1L, 1000L * d - 1, 1000L * d, 2147483647L}) {
      expect_equal(static_cast<std::int32_t>(x), d);
    }
  }
  for (int i = 0; i < 100000; ++i) {
    expect_equal(static_cast<std::int32_t>(random() >> 1), 1 + (random() >> (1 + random() % 31)));
  }
}

TEST(TilePolicy, TheSmallestTileThatHoldsTheFusedRows) {
  const TilePolicy tiles = choose_tiles(AttentionSpec{}, known_device("h200"));
  const auto q_rows = [&](int rows) {
    return tiles.classes[static_cast<std::size_t>(tiles.class_of(rows))].q_rows;
  };
  EXPECT_EQ(q_rows(1), 1);
  EXPECT_EQ(q_rows(2), 16);
  EXPECT_EQ(q_rows(16), 16);
  EXPECT_EQ(q_rows(17), 32);
  EXPECT_EQ(q_rows(33), 64);
  EXPECT_EQ(q_rows(65), 128);
  EXPECT_EQ(q_rows(1 << 20), 128);
}

TEST(TilePolicy, RespectsTheDevice) {
  DeviceLimits device = known_device("h200");
  device.min_tensor_query_tile = 64;
  device.max_query_tile = 64;
  TilePolicy tiles = choose_tiles(AttentionSpec{}, device);
  ASSERT_EQ(tiles.count, 2);
  EXPECT_EQ(tiles.classes[0].q_rows, 1);
  EXPECT_EQ(tiles.classes[1].q_rows, 64);

  // 256 dims: 128 query rows and two stages of 128 keys are 320 KiB, of 64 keys 192 KiB.
  AttentionSpec wide;
  wide.head_dim_qk = 256;
  tiles = choose_tiles(wide, known_device("h200"));
  const contract::TileClass largest = tiles.classes[static_cast<std::size_t>(tiles.count - 1)];
  EXPECT_EQ(largest.q_rows, 128);
  EXPECT_EQ(largest.kv_tokens, 64);
}

TEST(TilePolicy, WhatNoTileHoldsIsRefusedWithBothNumbers) {
  DeviceLimits device = known_device("h200");
  device.tile_memory = 1000;
  expect_error(ErrorKind::not_supported, {"head dims 128 and 128", "33024 bytes", "has 1000"},
               [&] { choose_tiles(AttentionSpec{}, device); });
}

TEST(CostModel, DecodeIsBoundByReadsAndPromptsByProducts) {
  DeviceLimits device = known_device("h200");
  device.tile_overhead_us = 0;
  const TilePolicy tiles = choose_tiles(AttentionSpec{}, device);
  const CostModel cost = make_cost_model(AttentionSpec{}, device, tiles);
  // 64 tokens of 512 bytes at 4600 / 132 bytes a nanosecond.
  EXPECT_EQ(cost.tile[1], 940);
  EXPECT_EQ(cost.item, 1000);
  device.read_gbps = 1e6;
  // 2 * 128 * 128 * 256 operations at 670,000 / 132 a nanosecond.
  EXPECT_EQ(make_cost_model(AttentionSpec{}, device, tiles).tile[4], 1653);
}

TEST(KnownDevices, AreFoundByName) {
  EXPECT_EQ(known_device("h200").num_ctas, 132);
  for (const DeviceLimits& device : known_devices()) {
    EXPECT_NO_THROW(Planner(AttentionSpec{}, Heads{32, 8}, device)) << device.name;
  }
  expect_error(ErrorKind::invalid_argument, {"\"h900\"", "h200, h100, a100, rtx4090, laptop4"},
               [] { known_device("h900"); });
}

}  // namespace
}  // namespace trencadis::planner
