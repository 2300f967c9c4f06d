// append_kv: where tokens land, in either layout and through any strides, and what it refuses.
#include <gtest/gtest.h>
#include <trencadis/trencadis.h>

#include <cmath>

#include "support/expect_error.h"
#include "support/host_tensor.h"

namespace trencadis::testing {
namespace {

constexpr std::int64_t kPages = 5, kPage = 3, kHeads = 2, kDimK = 4, kDimV = 6;

/// Two requests: pages 4 and 1, and page 2.
BlockSparse two_requests() {
  return from_page_table(std::vector<std::int32_t>{0, 2, 3}, std::vector<std::int32_t>{4, 1, 2},
                         std::vector<std::int32_t>{5, 2}, kPage);
}

struct NewTokens {
  explicit NewTokens(DType dtype, std::int64_t n = 3)
      : k(dtype, {n, kHeads, kDimK}), v(dtype, {n, kHeads, kDimV}) {
    double next = 1;
    fill(k.whole(), [&] { return next++; });
    fill(v.whole(), [&] { return next++; });
  }
  HostTensor k, v;
};

class AppendTest : public ::testing::TestWithParam<KvLayout> {
 protected:
  bool nhd() const { return GetParam() == KvLayout::nhd; }
  std::vector<std::int64_t> pool_shape(std::int64_t dim) const {
    return nhd() ? std::vector<std::int64_t>{kPages, kPage, kHeads, dim}
                 : std::vector<std::int64_t>{kPages, kHeads, kPage, dim};
  }
  double at(const TensorView& pool, std::int64_t page, std::int64_t offset, std::int64_t head,
            std::int64_t d) const {
    return nhd() ? get(pool, {page, offset, head, d}) : get(pool, {page, head, offset, d});
  }
};

TEST_P(AppendTest, TokensLandInTheirPagesAndNowhereElse) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const NewTokens fresh(DType::f32);
    const HostTensor k(dtype, pool_shape(kDimK)), v(dtype, pool_shape(kDimV));
    // Request 0, tokens 4 (page 1, offset 1) and 0 (page 4, offset 0); request 1, token 2.
    append_kv(fresh.k.whole(), fresh.v.whole(), std::vector<std::int32_t>{0, 0, 1},
              std::vector<std::int64_t>{4, 0, 2}, k.whole(), v.whole(), two_requests().view(),
              GetParam());
    const std::int64_t where[3][2] = {{1, 1}, {4, 0}, {2, 2}};
    for (std::int64_t i = 0; i < 3; ++i)
      for (std::int64_t h = 0; h < kHeads; ++h) {
        for (std::int64_t d = 0; d < kDimK; ++d)
          EXPECT_EQ(at(k.whole(), where[i][0], where[i][1], h, d), get(fresh.k.whole(), {i, h, d}));
        for (std::int64_t d = 0; d < kDimV; ++d)
          EXPECT_EQ(at(v.whole(), where[i][0], where[i][1], h, d), get(fresh.v.whole(), {i, h, d}));
      }
    std::int64_t written = 0;
    for (const double value : to_doubles(k.whole())) written += !std::isnan(value);
    EXPECT_EQ(written, 3 * kHeads * kDimK);
  }
}

// A2: one layer of a pool in which K and V share pages.
TEST_P(AppendTest, A2StridedPool) {
  const NewTokens fresh(DType::bf16);
  std::vector<std::int64_t> shape = pool_shape(kDimV);
  shape.insert(shape.begin() + 1, {3, 2});  // layers, K and V
  const HostTensor all(DType::bf16, shape);
  const TensorView layer = all.whole().select(1, 1);
  const TensorView k = layer.select(1, 0).slice(3, 0, kDimK), v = layer.select(1, 1);
  append_kv(fresh.k.whole(), fresh.v.whole(), std::vector<std::int32_t>{0, 0, 1},
            std::vector<std::int32_t>{3, 1, 0}, k, v, two_requests().view(), GetParam());
  EXPECT_EQ(at(k, 1, 0, 1, 3), get(fresh.k.whole(), {0, 1, 3}));
  EXPECT_EQ(at(v, 4, 1, 0, 5), get(fresh.v.whole(), {1, 0, 5}));
  EXPECT_TRUE(std::isnan(get(all.whole().select(1, 0), {1, 0, 0, 0, 0})));  // another layer
}

TEST_P(AppendTest, NegativeIndicesAreSkipped) {
  const NewTokens fresh(DType::f32);
  const HostTensor k(DType::f32, pool_shape(kDimK)), v(DType::f32, pool_shape(kDimV));
  append_kv(fresh.k.whole(), fresh.v.whole(), std::vector<std::int32_t>{-1, 0, 1},
            std::vector<std::int32_t>{0, -1, 0}, k.whole(), v.whole(), two_requests().view(),
            GetParam());
  std::int64_t written = 0;
  for (const double value : to_doubles(k.whole())) written += !std::isnan(value);
  EXPECT_EQ(written, kHeads * kDimK);
  EXPECT_EQ(at(k.whole(), 2, 0, 0, 0), get(fresh.k.whole(), {2, 0, 0}));
}

TEST_P(AppendTest, ConversionsSaturateAndKeepNan) {
  const HostTensor k_new(DType::f32, {1, kHeads, kDimK}, 1e30);
  const HostTensor v_new(DType::f32, {1, kHeads, kDimV}, -kInf);
  set(k_new.whole(), {0, 0, 1}, kNan);
  const HostTensor k(DType::f16, pool_shape(kDimK), 0.0), v(DType::bf16, pool_shape(kDimV), 0.0);
  append_kv(k_new.whole(), v_new.whole(), std::vector<std::int32_t>{1},
            std::vector<std::int32_t>{1}, k.whole(), v.whole(), two_requests().view(), GetParam());
  EXPECT_EQ(at(k.whole(), 2, 1, 0, 0), 65504);
  EXPECT_TRUE(std::isnan(at(k.whole(), 2, 1, 0, 1)));
  EXPECT_EQ(at(v.whole(), 2, 1, 1, 0), -0x1.FEp127);
}

TEST_P(AppendTest, RefusesBeforeAnythingIsWritten) {
  const NewTokens fresh(DType::f32, 2);
  const HostTensor k(DType::f32, pool_shape(kDimK)), v(DType::f32, pool_shape(kDimV));
  const auto append = [&](std::vector<std::int32_t> batch, std::vector<std::int32_t> positions) {
    append_kv(fresh.k.whole(), fresh.v.whole(), batch, positions, k.whole(), v.whole(),
              two_requests().view(), GetParam());
  };
  expect_error(ErrorKind::out_of_capacity, {"positions[1] is 3"}, [&] { append({0, 1}, {0, 3}); });
  expect_error(ErrorKind::invalid_argument, {"batch_indices[1] is 2"}, [&] {
    append({0, 2}, {0, 0});
  });
  expect_error(ErrorKind::invalid_argument, {"positions has 1"}, [&] { append({0, 1}, {0}); });
  for (const double value : to_doubles(k.whole())) EXPECT_TRUE(std::isnan(value));
}

INSTANTIATE_TEST_SUITE_P(Layouts, AppendTest, ::testing::Values(KvLayout::nhd, KvLayout::hnd),
                         [](const auto& layout) {
                           return layout.param == KvLayout::nhd ? "nhd" : "hnd";
                         });

}  // namespace
}  // namespace trencadis::testing
