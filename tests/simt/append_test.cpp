// Append, emulated, against loops over elements; the whole memory is compared, so that a write
// beside its place shows.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "cuda/entry/append.h"
#include "simt/launch.h"
#include "simt/paged_tokens.h"
#include "simt/strided.h"

namespace trencadis::simt {
namespace {

using ptx::BFloat;
using ptx::Half;

template <class From, class To>
void check_append(const Case& c) {
  Places places(c);
  Tensors<From, To> t(c, places);
  std::mt19937 random(7);
  t.k_rows.fill(random);
  t.v_rows.fill(random);
  Strided<To> k_expected = t.k_pool;
  Strided<To> v_expected = t.v_pool;
  places.for_each(c, [&](std::int64_t i, std::int64_t page, std::int64_t offset) {
    for (int h = 0; h < c.heads; ++h) {
      for (int d = 0; d < c.dim_qk; ++d)
        k_expected.set({page, offset, h, d}, t.k_rows.get({i, h, d}));
      for (int d = 0; d < c.dim_vo; ++d)
        v_expected.set({page, offset, h, d}, t.v_rows.get({i, h, d}));
    }
  });
  const contract::AppendParams params{t.params(c, places), {}};
  launch(c.launch_config(), [&] { entry::append<From, To>(params); });
  EXPECT_TRUE(t.k_pool.matches(k_expected)) << c;
  EXPECT_TRUE(t.v_pool.matches(v_expected)) << c;
  EXPECT_EQ(places.refused, 0) << c;
}

TEST(SimtAppend, TokensLandInTheirPagesAndNowhereElse) {
  for (const Case& c : cases()) {
    check_append<BFloat, BFloat>(c);
    check_append<float, float>(c);
    check_append<float, Half>(c);
    check_append<Half, float>(c);
    check_append<BFloat, Half>(c);
  }
}

/// Rotation by its definition, in float64.
template <class From, class To>
void check_rope(const Case& c, int rotary_dim, bool interleaved) {
  Places places(c);
  Tensors<From, To> t(c, places);
  std::mt19937 random(9);
  t.k_rows.fill(random);
  t.v_rows.fill(random);
  std::vector<float> inv_freq;
  for (int pair = 0; pair < rotary_dim / 2; ++pair)
    inv_freq.push_back(static_cast<float>(std::pow(10000.0, -2.0 * pair / rotary_dim)));
  std::vector<std::int32_t> positions;  // unlike the places
  for (int i = 0; i < Places::kCapacity; ++i) positions.push_back(100000 * (i % 9) + i);

  Strided<To> k_expected = t.k_pool;
  Strided<To> v_expected = t.v_pool;
  places.for_each(c, [&](std::int64_t i, std::int64_t page, std::int64_t offset) {
    for (int h = 0; h < c.heads; ++h) {
      for (int d = 0; d < c.dim_vo; ++d)
        v_expected.set({page, offset, h, d}, t.v_rows.get({i, h, d}));
      for (int d = rotary_dim; d < c.dim_qk; ++d)
        k_expected.set({page, offset, h, d}, t.k_rows.get({i, h, d}));
      for (int pair = 0; pair < rotary_dim / 2; ++pair) {
        const int a = interleaved ? 2 * pair : pair;
        const int b = interleaved ? a + 1 : a + rotary_dim / 2;
        const double angle = static_cast<double>(positions[static_cast<std::size_t>(i)]) *
                             static_cast<double>(inv_freq[static_cast<std::size_t>(pair)]);
        const double x = t.k_rows.get({i, h, a}), y = t.k_rows.get({i, h, b});
        k_expected.set({page, offset, h, a}, x * std::cos(angle) - y * std::sin(angle));
        k_expected.set({page, offset, h, b}, y * std::cos(angle) + x * std::sin(angle));
      }
    }
  });
  contract::AppendParams params{t.params(c, places), {}};
  params.rope = {inv_freq.data(), positions.data(), rotary_dim, interleaved ? 1 : 0};
  launch(c.launch_config(), [&] { entry::append<From, To>(params); });
  // Two roundings of the format where a value lies between two of its numbers, and float32's.
  EXPECT_TRUE(t.k_pool.matches(k_expected, 4)) << c << " rotary " << rotary_dim;
  EXPECT_TRUE(t.v_pool.matches(v_expected)) << c;
}

TEST(SimtAppend, RotatesKeysOnTheWayIn) {
  for (const Case& c : cases()) {
    const int whole = c.dim_qk & ~1;
    for (const bool interleaved : {false, true}) {
      check_rope<BFloat, BFloat>(c, whole, interleaved);
      check_rope<float, float>(c, whole, interleaved);
      check_rope<float, Half>(c, whole / 2 & ~1, interleaved);
      check_rope<Half, Half>(c, std::min(whole, 6), interleaved);
    }
  }
}

TEST(SimtAppend, ConversionsSaturateAndKeepNaN) {
  Case c{.page_size = 1, .heads = 1, .dim_qk = 16, .dim_vo = 16};
  for (const std::int64_t padding : {0, 1}) {
    c.padding = c.row_padding = padding;
    Places places(c);
    places.count = 1;
    Tensors<float, Half> t(c, places);
    const double inf = std::numeric_limits<double>::infinity();
    const double values[] = {1e30, -1e30, inf, -inf, std::nan(""), 65519, 65520, 1};
    const double wanted[] = {65504, -65504, 65504, -65504, std::nan(""), 65504, 65504, 1};
    for (int d = 0; d < 16; ++d) {
      t.k_rows.set({0, 0, d}, values[d % 8]);
      t.v_rows.set({0, 0, d}, values[d % 8]);
    }
    const contract::AppendParams params{t.params(c, places), {}};
    launch(c.launch_config(), [&] { entry::append<float, Half>(params); });
    places.for_each(c, [&](std::int64_t, std::int64_t page, std::int64_t offset) {
      for (int d = 0; d < 16; ++d) {
        const double stored = t.k_pool.get({page, offset, 0, d});
        if (std::isnan(wanted[d % 8]))
          EXPECT_TRUE(std::isnan(stored)) << d;
        else
          EXPECT_EQ(stored, wanted[d % 8]) << d;
      }
    });
  }
}

TEST(SimtAppend, OneTypeKeepsItsBits) {
  Case c{.page_size = 1, .heads = 1, .dim_qk = 8, .dim_vo = 0};
  Places places(c);
  places.count = 1;
  Tensors<BFloat, BFloat> t(c, places);
  const std::uint16_t bits[] = {0x7f80, 0xff80, 0x7fc1, 0x7f81, 0x0001, 0x8000, 0xffff, 0x3f80};
  std::memcpy(t.k_rows.data(), bits, sizeof bits);
  const contract::AppendParams params{t.params(c, places), {}};
  launch(c.launch_config(), [&] { entry::append<BFloat, BFloat>(params); });
  places.for_each(c, [&](std::int64_t, std::int64_t page, std::int64_t) {
    EXPECT_EQ(std::memcmp(t.k_pool.data() + page * t.k_pool.stride(0), bits, sizeof bits), 0);
  });
}

TEST(SimtAppend, PlacesThatDoNotExistAreRefusedAndCounted) {
  for (const bool use_slots : {false, true}) {
    Case c{.page_size = 3, .use_slots = use_slots};
    Places places(c);
    places.count = 4;
    const std::int32_t last = places.indptr[1] * c.page_size - 1;  // of request 0
    places.batch_indices = {0, Places::kRequests, 0, 1};
    places.positions = {last + 1, 0, 0, 0};
    places.indices[0] = places.pages;
    places.slots = {3 * places.pages, std::int64_t{1} << 40, -5, 1};
    Tensors<Half, Half> t(c, places);
    std::mt19937 random(3);
    t.k_rows.fill(random);
    t.v_rows.fill(random);
    const Strided<Half> untouched = t.k_pool;
    contract::AppendParams params{t.params(c, places), {}};
    launch(c.launch_config(), [&] { entry::append<Half, Half>(params); });
    EXPECT_EQ(places.refused, use_slots ? 2 : 3);
    const std::int64_t page =
        use_slots ? 0 : places.indices[static_cast<std::size_t>(places.indptr[1])];
    EXPECT_EQ(t.k_pool.get({page, use_slots ? 1 : 0, 1, 5}), t.k_rows.get({3, 1, 5}));

    // Without a counter they are as silent as those that are skipped; so is no token at all.
    t.k_pool = untouched;
    places.count = 3;
    params.tokens.places.num_refused = nullptr;
    launch(c.launch_config(), [&] { entry::append<Half, Half>(params); });
    EXPECT_TRUE(t.k_pool.matches(untouched));
    places.count = 0;
    launch(c.launch_config(), [&] { entry::append<Half, Half>(params); });
    EXPECT_TRUE(t.k_pool.matches(untouched));
  }
}

TEST(SimtAppend, NoCountIsTheCapacityAndACountIsAtMostThat) {
  const Case c;
  for (const bool counted : {false, true}) {
    Places places(c);
    places.count = 1000;
    Tensors<Half, Half> t(c, places);
    std::mt19937 random(3);
    t.k_rows.fill(random);
    t.v_rows.fill(random);
    contract::AppendParams params{t.params(c, places), {}};
    params.tokens.places.capacity = 2;
    if (!counted) params.tokens.places.num_tokens = nullptr;
    Strided<Half> expected = t.k_pool;
    places.count = 2;
    places.for_each(c, [&](std::int64_t i, std::int64_t page, std::int64_t offset) {
      for (int h = 0; h < c.heads; ++h)
        for (int d = 0; d < c.dim_qk; ++d)
          expected.set({page, offset, h, d}, t.k_rows.get({i, h, d}));
    });
    places.count = 1000;
    launch(c.launch_config(), [&] { entry::append<Half, Half>(params); });
    EXPECT_TRUE(t.k_pool.matches(expected)) << counted;
  }
}

TEST(SimtAppend, SlotsBeyond32Bits) {
  for (const std::int64_t slot : {std::int64_t{0}, std::int64_t{0xffffffff}, std::int64_t{1} << 32,
                                  (std::int64_t{1} << 40) + 5})
    for (const int page_size : {1, 3, 16}) {
      const collective::TokenPlace place = collective::split_slot(slot, page_size);
      EXPECT_EQ(place.page, slot / page_size) << slot;
      EXPECT_EQ(place.offset, slot % page_size) << slot;
    }
}

TEST(SimtAppend, OffsetsBeyond32Bits) {
  constexpr std::int64_t kPageStride = (std::int64_t{1} << 31) + 64;  // elements
  constexpr std::size_t kBytes = 3 * kPageStride * sizeof(std::uint16_t);
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "there is no address space for a pool of 12 GiB";
  Case c{.page_size = 1, .heads = 1, .dim_qk = 8, .dim_vo = 0, .use_slots = true};
  Places places(c);
  places.count = 1;
  places.slots[0] = 2;
  Tensors<Half, Half> t(c, places);
  std::mt19937 random(3);
  t.k_rows.fill(random);
  contract::AppendParams params{t.params(c, places), {}};
  params.tokens.k_pool = {memory, kPageStride, 8, 8};
  launch(c.launch_config(), [&] { entry::append<Half, Half>(params); });
  const auto* page = static_cast<const std::uint16_t*>(memory) + 2 * kPageStride;
  EXPECT_EQ(std::memcmp(page, t.k_rows.data(), 16), 0);
  munmap(memory, kBytes);
}

}  // namespace
}  // namespace trencadis::simt
