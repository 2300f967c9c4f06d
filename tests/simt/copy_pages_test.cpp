// Gathering tokens and copying pages, emulated, against loops over elements; the whole memory is
// compared.
#include <gtest/gtest.h>

#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#include "cuda/entry/append.h"
#include "cuda/entry/copy_pages.h"
#include "simt/launch.h"
#include "simt/paged_tokens.h"
#include "simt/strided.h"

namespace trencadis::simt {
namespace {

using ptx::BFloat;
using ptx::Half;

template <class From, class To>
void check_gather(const Case& c) {
  Places places(c);
  Tensors<To, From> t(c, places);
  std::mt19937 random(8);
  t.k_pool.fill(random);
  t.v_pool.fill(random);
  Strided<To> k_expected = t.k_rows;
  Strided<To> v_expected = t.v_rows;
  places.for_each(c, [&](std::int64_t i, std::int64_t page, std::int64_t offset) {
    for (int h = 0; h < c.heads; ++h) {
      for (int d = 0; d < c.dim_qk; ++d)
        k_expected.set({i, h, d}, t.k_pool.get({page, offset, h, d}));
      for (int d = 0; d < c.dim_vo; ++d)
        v_expected.set({i, h, d}, t.v_pool.get({page, offset, h, d}));
    }
  });
  const contract::PagedTokens params = t.params(c, places);
  launch(c.launch_config(), [&] { entry::gather<From, To>(params); });
  EXPECT_TRUE(t.k_rows.matches(k_expected)) << c;
  EXPECT_TRUE(t.v_rows.matches(v_expected)) << c;
}

TEST(SimtGather, RowsComeFromTheirPages) {
  for (const Case& c : cases()) {
    check_gather<BFloat, BFloat>(c);
    check_gather<Half, float>(c);
    check_gather<float, BFloat>(c);
  }
}

/// Pairs of pages, the first 9 of 12 asked for, with two skipped and one beyond the pool.
struct Pairs {
  std::vector<std::int32_t> from = {0, 5, -1, 3, 4, 99, 5, 2, 7, 1, 1, 1};
  std::vector<std::int32_t> to = {8, 9, 10, -1, 4, 1, 9, 11, 12, 13, 14, 15};
  int count = 9;
  int refused = 0;
};

template <class From, class To>
void check_copy(const Case& c, bool in_place) {
  constexpr int kPages = 16;
  const auto pool = [&](std::int64_t dim, bool hnd) {
    Case like = c;
    if (hnd != c.hnd) {
      like.padding = c.row_padding;
      like.shift = 0;
    }
    like.hnd = hnd;
    return std::pair{Index{kPages, c.page_size, c.heads, dim}, like.pages()};
  };
  // Unlike layouts where there are two pools.
  const auto [k_shape, k_layout] = pool(c.dim_qk, c.hnd);
  const auto [v_shape, v_layout] = pool(c.dim_vo, c.hnd);
  Strided<From> k_from(k_shape, k_layout), v_from(v_shape, v_layout);
  Strided<To> k_to(k_shape, pool(c.dim_qk, !c.hnd).second);
  Strided<To> v_to(v_shape, pool(c.dim_vo, !c.hnd).second);
  std::mt19937 random(11);
  k_from.fill(random);
  v_from.fill(random);

  Pairs pairs;
  contract::CopyPagesParams params{.k_from = pages_of(k_from),
                                   .v_from = pages_of(v_from),
                                   .k_to = pages_of(k_to),
                                   .v_to = pages_of(v_to),
                                   .from = pairs.from.data(),
                                   .to = pairs.to.data(),
                                   .num_pairs = &pairs.count,
                                   .num_refused = &pairs.refused,
                                   .capacity = static_cast<std::int64_t>(pairs.from.size()),
                                   .from_pages = kPages,
                                   .to_pages = kPages,
                                   .page_size = c.page_size,
                                   .num_kv_heads = c.heads,
                                   .head_dim_qk = c.dim_qk,
                                   .head_dim_vo = c.dim_vo};
  if (in_place) {
    params.k_to = params.k_from;
    params.v_to = params.v_from;
  }
  const auto expect = [&](const auto& source, auto target, std::int64_t dim) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(pairs.count); ++i) {
      const std::int64_t from = pairs.from[i], to = pairs.to[i];
      if (from < 0 || to < 0 || from >= kPages) continue;
      for (int p = 0; p < c.page_size; ++p)
        for (int h = 0; h < c.heads; ++h)
          for (std::int64_t d = 0; d < dim; ++d)
            target.set({to, p, h, d}, source.get({from, p, h, d}));
    }
    return target;
  };
  if constexpr (std::is_same_v<From, To>) {
    if (in_place) {
      const Strided<From> k_expected = expect(k_from, k_from, c.dim_qk);
      const Strided<From> v_expected = expect(v_from, v_from, c.dim_vo);
      launch(c.launch_config(), [&] { entry::copy_pages<From, To>(params); });
      EXPECT_TRUE(k_from.matches(k_expected)) << c;
      EXPECT_TRUE(v_from.matches(v_expected)) << c;
      EXPECT_EQ(pairs.refused, 1) << c;
      return;
    }
  }
  const Strided<To> k_expected = expect(k_from, k_to, c.dim_qk);
  const Strided<To> v_expected = expect(v_from, v_to, c.dim_vo);
  launch(c.launch_config(), [&] { entry::copy_pages<From, To>(params); });
  EXPECT_TRUE(k_to.matches(k_expected)) << c;
  EXPECT_TRUE(v_to.matches(v_expected)) << c;
  EXPECT_EQ(pairs.refused, 1) << c;
}

TEST(SimtCopyPages, FromPoolToPool) {
  for (const Case& c : cases()) {
    check_copy<BFloat, BFloat>(c, false);
    check_copy<float, Half>(c, false);
    check_copy<Half, float>(c, false);
  }
}

TEST(SimtCopyPages, InsideOfOnePool) {
  for (const Case& c : cases()) {
    check_copy<Half, Half>(c, true);
    check_copy<float, float>(c, true);
  }
}

}  // namespace
}  // namespace trencadis::simt
