// append_kv and gather_kv: where tokens land, in either layout and through any strides, how keys
// turn on the way, and what is refused.
#include <gtest/gtest.h>
#include <trencadis/trencadis.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

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

/// Arrays that places point to.
struct Arrays {
  std::vector<std::int32_t> batch_indices, positions;
  std::vector<std::int32_t> indptr{0, 2, 3}, indices{4, 1, 2};  // as two_requests()
  std::vector<std::int64_t> slots;
  std::int32_t num_tokens = 0, num_refused = 0;

  template <class T>
  static TensorView view(std::vector<T>& values) {
    return TensorView(values.data(), sizeof(T) == 8 ? DType::i64 : DType::i32,
                      {static_cast<std::int64_t>(values.size())});
  }
  static TensorView number(std::int32_t& value) { return TensorView(&value, DType::i32, {1}); }

  TokenPlaces by_position() {
    return {.batch_indices = view(batch_indices),
            .positions = view(positions),
            .indptr = view(indptr),
            .indices = view(indices)};
  }
  TokenPlaces by_slot() { return {.slots = view(slots)}; }
};

std::int64_t written(const TensorView& tensor) {
  std::int64_t count = 0;
  for (const double value : to_doubles(tensor)) count += !std::isnan(value);
  return count;
}

TEST_P(AppendTest, SlotsAndPositionsNameTheSamePlaces) {
  Arrays a{.batch_indices = {0, -1, 0, 1}, .positions = {4, 0, 0, 2}, .slots = {4, -1, 12, 8}};
  const NewTokens fresh(DType::f32, 4);
  const HostTensor k1(DType::f16, pool_shape(kDimK)), v1(DType::f16, pool_shape(kDimV));
  const HostTensor k2(DType::f16, pool_shape(kDimK)), v2(DType::f16, pool_shape(kDimV));
  append_kv(fresh.k.whole(), fresh.v.whole(), {k1.whole(), v1.whole(), GetParam()},
            a.by_position());
  append_kv(fresh.k.whole(), fresh.v.whole(), {k2.whole(), v2.whole(), GetParam()}, a.by_slot());
  EXPECT_EQ(written(k1.whole()), 3 * kHeads * kDimK);
  EXPECT_EQ(at(k1.whole(), 2, 2, 1, 0), get(fresh.k.whole(), {3, 1, 0}));
  EXPECT_TRUE(std::ranges::equal(k1.bytes(), k2.bytes()));
  EXPECT_TRUE(std::ranges::equal(v1.bytes(), v2.bytes()));
}

TEST_P(AppendTest, KeysAloneAndAContiguousTable) {
  // Request 1 has blocks 2 and 3 of the pool, by their own numbers.
  Arrays a{.batch_indices = {1}, .positions = {4}, .indptr = {0, 2, 4}};
  const NewTokens fresh(DType::bf16, 1);
  const HostTensor k(DType::bf16, pool_shape(kDimK));
  TokenPlaces places = a.by_position();
  places.indices = {};
  append_kv(fresh.k.whole(), {}, {.k = k.whole(), .layout = GetParam()}, places);
  EXPECT_EQ(at(k.whole(), 3, 1, 1, 2), get(fresh.k.whole(), {0, 1, 2}));
  EXPECT_EQ(written(k.whole()), kHeads * kDimK);
}

TEST_P(AppendTest, NumTokensBoundsTheArrays) {
  Arrays a{.slots = {0, 1, 1 << 20}, .num_tokens = 1};
  const NewTokens fresh(DType::f32, 3);
  const HostTensor k(DType::f32, pool_shape(kDimK)), v(DType::f32, pool_shape(kDimV));
  const KvPool pool{k.whole(), v.whole(), GetParam()};
  TokenPlaces places = a.by_slot();
  places.num_tokens = Arrays::number(a.num_tokens);
  append_kv(fresh.k.whole(), fresh.v.whole(), pool, places);
  EXPECT_EQ(written(k.whole()), kHeads * kDimK);
  for (const std::int32_t wrong : {-1, 4}) {
    a.num_tokens = wrong;
    expect_error(ErrorKind::invalid_argument, {"num_tokens holds"},
                 [&] { append_kv(fresh.k.whole(), fresh.v.whole(), pool, places); });
  }
}

TEST_P(AppendTest, TokensWithoutAPlaceAreCountedWhereThatIsWanted) {
  Arrays a{.batch_indices = {0, 2, 0, 1, -1}, .positions = {6, 0, 0, 1, 0}};
  a.indices[0] = kPages;
  const NewTokens fresh(DType::f32, 5);
  const HostTensor k(DType::f32, pool_shape(kDimK)), v(DType::f32, pool_shape(kDimV));
  TokenPlaces places = a.by_position();
  places.num_refused = Arrays::number(a.num_refused);
  const KvPool pool{k.whole(), v.whole(), GetParam()};
  append_kv(fresh.k.whole(), fresh.v.whole(), pool, places);
  EXPECT_EQ(a.num_refused, 3);
  EXPECT_EQ(written(k.whole()), kHeads * kDimK);
  EXPECT_EQ(at(v.whole(), 2, 1, 0, 3), get(fresh.v.whole(), {3, 0, 3}));

  // A broken table is no token's fault.
  a.indptr[2] = 9;
  expect_error(ErrorKind::invalid_argument, {"indptr[2] is 9", "3 entries"},
               [&] { append_kv(fresh.k.whole(), fresh.v.whole(), pool, places); });
  a.indptr[2] = 1;
  expect_error(ErrorKind::invalid_argument, {"indptr[1] is 2", "indptr[2] is 1"},
               [&] { append_kv(fresh.k.whole(), fresh.v.whole(), pool, places); });
}

/// Rotation by its definition, in float64.
TEST_P(AppendTest, RotatesKeysOnTheWayIn) {
  constexpr std::int64_t kDim = 12;
  Arrays a{.batch_indices = {0, 1}, .positions = {5, 2}, .slots = {5, 8}};
  std::vector<std::int32_t> far{1'000'003, 7};
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  for (const bool interleaved : {false, true})
    for (const bool by_slot : {false, true})
      for (const int rotary : {0, 2, 8}) {
        const HostTensor k_new(DType::f32, {2, kHeads, kDim}), v_new(DType::f32, {2, kHeads, 2});
        fill(k_new.whole(), [&] { return normal(random); });
        fill(v_new.whole(), [&] { return normal(random); });
        const HostTensor k(DType::f32, pool_shape(kDim)), v(DType::f32, pool_shape(2));
        const std::int64_t dim = rotary == 0 ? kDim : rotary;
        std::vector<float> inv_freq;
        for (std::int64_t pair = 0; pair < dim / 2; ++pair)
          inv_freq.push_back(static_cast<float>(
              std::pow(10000.0, -2.0 * static_cast<double>(pair) / static_cast<double>(dim))));
        AppendRope rope{.inv_freq = TensorView(inv_freq.data(), DType::f32, {dim / 2}),
                        .dim = rotary,
                        .interleaved = interleaved};
        if (by_slot) rope.positions = Arrays::view(far);
        append_kv(k_new.whole(), v_new.whole(), {k.whole(), v.whole(), GetParam()},
                  by_slot ? a.by_slot() : a.by_position(), {.rope = rope});
        const std::int64_t where[2][2] = {{1, 2}, {2, 2}};
        for (std::int64_t i = 0; i < 2; ++i) {
          const auto n = static_cast<std::size_t>(i);
          const double position = by_slot ? far[n] : a.positions[n];
          for (std::int64_t h = 0; h < kHeads; ++h) {
            const auto stored = [&](std::int64_t d) {
              return at(k.whole(), where[i][0], where[i][1], h, d);
            };
            for (std::int64_t pair = 0; pair < dim / 2; ++pair) {
              const std::int64_t first = interleaved ? 2 * pair : pair;
              const std::int64_t second = interleaved ? first + 1 : first + dim / 2;
              const double x = get(k_new.whole(), {i, h, first});
              const double y = get(k_new.whole(), {i, h, second});
              const double angle =
                  position * static_cast<double>(inv_freq[static_cast<std::size_t>(pair)]);
              EXPECT_NEAR(stored(first), x * std::cos(angle) - y * std::sin(angle), 1e-6);
              EXPECT_NEAR(stored(second), y * std::cos(angle) + x * std::sin(angle), 1e-6);
            }
            for (std::int64_t d = dim; d < kDim; ++d)
              EXPECT_EQ(stored(d), get(k_new.whole(), {i, h, d}));
            EXPECT_EQ(at(v.whole(), where[i][0], where[i][1], h, 1), get(v_new.whole(), {i, h, 1}));
          }
        }
      }
}

TEST_P(AppendTest, RotatedKeysSaturateAndTheRestKeepsItsBits) {
  Arrays a{.slots = {3}};
  std::vector<std::int32_t> positions{1};
  float inv_freq = 0.7853982f;  // 45 degrees: the larger sum leaves float16
  const HostTensor k_new(DType::f16, {1, kHeads, kDimK}, 65504.0);
  const std::uint16_t quiet = 0x7f01;  // a NaN with bits of its own
  std::memcpy(k_new.whole().data_as<std::uint16_t>() + 3, &quiet, sizeof quiet);
  const HostTensor k(DType::f16, pool_shape(kDimK));
  append_kv(k_new.whole(), {}, {.k = k.whole(), .layout = GetParam()}, a.by_slot(),
            {.rope = AppendRope{.inv_freq = TensorView(&inv_freq, DType::f32, {1}),
                                .dim = 2,
                                .positions = Arrays::view(positions)}});
  EXPECT_NEAR(at(k.whole(), 1, 0, 0, 0), 0, 1e-2);
  EXPECT_EQ(at(k.whole(), 1, 0, 0, 1), 65504);
  const TensorView row = k.whole().select(0, 1).select(nhd() ? 0 : 1, 0).select(0, 0);
  EXPECT_EQ(row.data_as<std::uint16_t>()[3], quiet);
}

// gather(append(x)) = x, bit for bit.
TEST_P(AppendTest, GatherIsTheInverseOfAppend) {
  std::mt19937 random(5);
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (const bool by_slot : {false, true}) {
      Arrays a{.batch_indices = {0, 1, 0, -1, 0, 1},
               .positions = {5, 0, 2, 1, 3, 2},
               .slots = {5, 6, 14, -1, 3, 8}};
      HostTensor k_new(dtype, {6, kHeads, kDimK}), v_new(dtype, {6, kHeads, kDimV});
      for (HostTensor* tensor : {&k_new, &v_new})
        for (std::byte& byte : tensor->bytes()) byte = static_cast<std::byte>(random());
      const HostTensor k(dtype, pool_shape(kDimK)), v(dtype, pool_shape(kDimV));
      const KvPool pool{k.whole(), v.whole(), GetParam()};
      const TokenPlaces places = by_slot ? a.by_slot() : a.by_position();
      append_kv(k_new.whole(), v_new.whole(), pool, places);
      HostTensor k_back(dtype, {6, kHeads, kDimK}), v_back(dtype, {6, kHeads, kDimV});
      const HostTensor k_before = k_back, v_before = v_back;
      gather_kv(pool, places, k_back.whole(), v_back.whole());
      const auto same = [](const HostTensor& x, const HostTensor& y, std::int64_t row) {
        const auto bytes = x.bytes().size() / 6;
        return std::memcmp(x.bytes().data() + static_cast<std::size_t>(row) * bytes,
                           y.bytes().data() + static_cast<std::size_t>(row) * bytes, bytes) == 0;
      };
      for (std::int64_t row = 0; row < 6; ++row) {
        EXPECT_TRUE(same(k_back, row == 3 ? k_before : k_new, row)) << row;
        EXPECT_TRUE(same(v_back, row == 3 ? v_before : v_new, row)) << row;
      }
    }
}

TEST_P(AppendTest, GatherConvertsAndReadsThroughStrides) {
  Arrays a{.slots = {7}};
  const HostTensor k(DType::f32, pool_shape(kDimK), 1e30), v(DType::f32, pool_shape(kDimV), 2.5);
  const HostTensor wide_k(DType::f16, {1, kDimK, kHeads}), wide_v(DType::bf16, {1, kHeads, 16});
  // Rows whose last dimension is not contiguous.
  const std::int64_t shape[] = {1, kHeads, kDimK}, strides[] = {kDimK * kHeads, 1, kHeads};
  gather_kv({k.whole(), v.whole(), GetParam()}, a.by_slot(),
            TensorView(wide_k.whole().data(), DType::f16, shape, strides),
            wide_v.whole().slice(2, 3, 3 + kDimV));
  for (const double x : to_doubles(wide_k.whole())) EXPECT_EQ(x, 65504);
  EXPECT_EQ(written(wide_v.whole()), kHeads * kDimV);
  EXPECT_EQ(get(wide_v.whole(), {0, 1, 3}), 2.5);
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
  Arrays slots{.slots = {0, kPages * kPage}};
  expect_error(ErrorKind::invalid_argument, {"slots[1] is 15"}, [&] {
    append_kv(fresh.k.whole(), fresh.v.whole(), {k.whole(), v.whole(), GetParam()},
              slots.by_slot());
  });
  for (const double value : to_doubles(k.whole())) EXPECT_TRUE(std::isnan(value));
}

INSTANTIATE_TEST_SUITE_P(Layouts, AppendTest, ::testing::Values(KvLayout::nhd, KvLayout::hnd),
                         [](const auto& layout) {
                           return layout.param == KvLayout::nhd ? "nhd" : "hnd";
                         });

}  // namespace
}  // namespace trencadis::testing
