// copy_pages: from pool to pool of other dtypes and layouts, inside one, and what it refuses; after
// compact_pages, attention is what it was before.
#include <gtest/gtest.h>
#include <trencadis/trencadis.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "support/expect_error.h"
#include "support/host_tensor.h"
#include "support/problem.h"
#include "support/run.h"

namespace trencadis::testing {
namespace {

constexpr std::int64_t kPage = 3, kHeads = 2, kDimK = 4, kDimV = 6;
using Indices = std::vector<std::int32_t>;

struct Pool {
  Pool(DType dtype, std::int64_t pages, KvLayout pages_layout)
      : layout(pages_layout), k(dtype, shape(pages, kDimK)), v(dtype, shape(pages, kDimV)) {}

  std::vector<std::int64_t> shape(std::int64_t pages, std::int64_t dim) const {
    return layout == KvLayout::nhd ? std::vector{pages, kPage, kHeads, dim}
                                   : std::vector{pages, kHeads, kPage, dim};
  }
  KvPool view() const { return {k.whole(), v.whole(), layout}; }
  double at(const HostTensor& pool, std::int64_t page, std::int64_t token, std::int64_t head,
            std::int64_t d) const {
    return layout == KvLayout::nhd ? get(pool.whole(), {page, token, head, d})
                                   : get(pool.whole(), {page, head, token, d});
  }
  void fill_random() {
    std::mt19937 random(4);
    for (const HostTensor* tensor : {&k, &v})
      fill(tensor->whole(), [&] { return std::floor(static_cast<double>(random() % 256)); });
  }

  KvLayout layout;
  HostTensor k, v;
};

struct Pairs {
  Indices from, to;
  std::int32_t refused = 0;

  PagePairs view() {
    const auto size = static_cast<std::int64_t>(from.size());
    return {.from = TensorView(from.data(), DType::i32, {size}),
            .to = TensorView(to.data(), DType::i32, {static_cast<std::int64_t>(to.size())})};
  }
  PagePairs counted() {
    PagePairs pairs = view();
    pairs.num_refused = TensorView(&refused, DType::i32, {1});
    return pairs;
  }
};

/// Every page of `target` is the page of `source` that `of_page` names, or untouched.
void expect_pages(const Pool& source, const Pool& target, const Indices& of_page) {
  for (std::size_t page = 0; page < of_page.size(); ++page)
    for (std::int64_t t = 0; t < kPage; ++t)
      for (std::int64_t h = 0; h < kHeads; ++h)
        for (std::int64_t d = 0; d < kDimV; ++d) {
          const auto to = static_cast<std::int64_t>(page);
          if (of_page[page] < 0) {
            ASSERT_TRUE(std::isnan(target.at(target.v, to, t, h, d))) << page;
            continue;
          }
          ASSERT_EQ(target.at(target.v, to, t, h, d), source.at(source.v, of_page[page], t, h, d));
          if (d >= kDimK) continue;
          ASSERT_EQ(target.at(target.k, to, t, h, d), source.at(source.k, of_page[page], t, h, d));
        }
}

TEST(CopyPages, FromPoolToPoolOfAnotherKind) {
  for (const KvLayout from_layout : {KvLayout::nhd, KvLayout::hnd})
    for (const KvLayout to_layout : {KvLayout::nhd, KvLayout::hnd})
      for (const DType dtype : {DType::f32, DType::bf16}) {
        Pool source(DType::f16, 4, from_layout);
        source.fill_random();
        const Pool target(dtype, 6, to_layout);
        Pairs pairs{.from = {3, 0, -1, 2, 1, 3, 3}, .to = {5, 0, 1, -1, 2, 5, 3}};
        copy_pages(source.view(), target.view(), pairs.view());
        expect_pages(source, target, {0, -1, 1, 3, -1, 3});
      }
}

TEST(CopyPages, CountsAndWhatLiesBeyond) {
  Pool source(DType::f32, 4, KvLayout::nhd);
  source.fill_random();
  const Pool target(DType::f32, 2, KvLayout::nhd);
  Pairs pairs{.from = {4, 0, 1, 0, 9}, .to = {0, 2, 1, -1, 9}};
  expect_error(ErrorKind::invalid_argument, {"from[0] is 4", "to[0] is 0", "below 4 and 2"},
               [&] { copy_pages(source.view(), target.view(), pairs.view()); });
  expect_pages(source, target, {-1, -1});
  std::int32_t count = 4;
  PagePairs some = pairs.counted();
  some.num_pairs = TensorView(&count, DType::i32, {1});
  copy_pages(source.view(), target.view(), some);
  EXPECT_EQ(pairs.refused, 2);
  expect_pages(source, target, {-1, 1});
}

TEST(CopyPages, InsideOnePool) {
  Pool pool(DType::bf16, 5, KvLayout::hnd);
  pool.fill_random();
  const Pool before = pool;
  Pairs pairs{.from = {0, 4, 2}, .to = {1, 4, 3}};
  copy_pages(pool.view(), pool.view(), pairs.view());
  expect_pages(before, pool, {0, 0, 2, 2, 4});
}

TEST(CopyPages, RefusesInWords) {
  const Pool pool(DType::f32, 5, KvLayout::nhd), other(DType::f32, 5, KvLayout::nhd);
  const auto refuses = [&](Pairs pairs, const Pool& target,
                           std::initializer_list<std::string> words) {
    expect_error(ErrorKind::invalid_argument, words,
                 [&] { copy_pages(pool.view(), target.view(), pairs.view()); });
  };
  refuses({{0, 1}, {2, 2}}, other, {"page 0 is copied to page 2", "page 1"});
  refuses({{0, 1}, {1, 2}}, pool, {"page 1 is copied to page 2", "read and written"});
  refuses({{0, 1}, {1}}, other, {"pairs.to", "[2]"});
  KvPool keys = pool.view();
  keys.v = {};
  Pairs pairs{{0}, {1}};
  expect_error(ErrorKind::invalid_argument, {"source.v is given", "target.v is missing"},
               [&] { copy_pages(pool.view(), keys, pairs.view()); });
  KvPool turned = pool.view();
  turned.layout = KvLayout::hnd;
  expect_error(ErrorKind::invalid_argument, {"target.k", "page size"},
               [&] { copy_pages(pool.view(), turned, pairs.view()); });
  expect_error(ErrorKind::invalid_argument, {"expected two pools"}, [&] {
    copy_pages(pool.view(), {pool.k.whole(), other.v.whole()}, pairs.view());
  });
}

// The law: pages move, the table with them, and no bit of the result changes. What they leave
// behind is NaN.
TEST(CopyPages, AfterCompactionAttentionIsWhatItWas) {
  for (const KvLayout layout : {KvLayout::nhd, KvLayout::hnd})
    for (const PoolStyle style : {PoolStyle::separate, PoolStyle::layered}) {
      Problem problem = ProblemBuilder()
                            .heads(4, 2)
                            .dims(32)
                            .causal()
                            .lengths({{1, 90}, {5, 33}, {0, 0}, {20, 64}})
                            .page_size(8)
                            .layout(layout)
                            .pool(style)
                            .seed(7)
                            .build();
      const Output before = run_engine(problem);
      const std::int64_t pages = problem.k.size(0);
      Compaction compaction = compact_pages(problem.matrix.view(), pages);
      ASSERT_FALSE(compaction.from.empty());
      const KvPool pool{problem.k, problem.v, layout};
      const auto moves = static_cast<std::int64_t>(compaction.from.size());
      copy_pages(pool, pool,
                 {.from = TensorView(compaction.from.data(), DType::i32, {moves}),
                  .to = TensorView(compaction.to.data(), DType::i32, {moves})});
      problem.matrix.indices = compaction.indices;
      for (const TensorView& tensor : {problem.k, problem.v})
        fill(tensor.slice(0, compaction.pages_used, pages), kNan);
      EXPECT_TRUE(same_bits(run_engine(problem), before));
    }
}

}  // namespace
}  // namespace trencadis::testing
