// compact_pages: which pages move, and the laws of the table after.
#include <gmock/gmock.h>
#include <trencadis/kv_cache.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "support/expect_error.h"
#include "support/scale.h"

namespace trencadis {
namespace {

using ::testing::ElementsAre;
using testing::expect_error;
using ::testing::IsEmpty;
using Indices = std::vector<std::int32_t>;

BlockSparseView table_of(const Indices& indptr, const Indices& indices) {
  BlockSparseView table;
  table.indptr = indptr;
  table.indices = indices;
  return table;
}

TEST(CompactPages, PagesBeyondGoToTheFreeOnesBelow) {
  // Five pages in use; 0 and 3 are free below, 9 and 7 lie beyond.
  const Indices indptr{0, 3, 5}, indices{9, 1, 4, 2, 7};
  const Compaction c = compact_pages(table_of(indptr, indices), 10);
  EXPECT_EQ(c.pages_used, 5);
  EXPECT_THAT(c.from, ElementsAre(7, 9));
  EXPECT_THAT(c.to, ElementsAre(0, 3));
  EXPECT_THAT(c.indices, ElementsAre(3, 1, 4, 2, 0));
}

TEST(CompactPages, SharedPagesStaySharedAndEntriesOfNoRowStay) {
  const Indices indptr{1, 3, 5}, indices{-7, 8, 3, 8, 0, 99};
  const Compaction c = compact_pages(table_of(indptr, indices), 9);
  EXPECT_EQ(c.pages_used, 3);
  EXPECT_THAT(c.from, ElementsAre(3, 8));
  EXPECT_THAT(c.to, ElementsAre(1, 2));
  EXPECT_THAT(c.indices, ElementsAre(-7, 2, 1, 2, 0, 99));
}

TEST(CompactPages, WhatIsCompactStays) {
  for (const Indices& indices : {Indices{2, 0, 1}, Indices{}}) {
    const Indices indptr{0, static_cast<std::int32_t>(indices.size())};
    const Compaction c = compact_pages(table_of(indptr, indices), 3);
    EXPECT_THAT(c.from, IsEmpty());
    EXPECT_EQ(c.indices, indices);
  }
}

TEST(CompactPages, LawsOfRandomTables) {
  std::mt19937 random(1);
  for (int round = 0; round < testing::scaled(300); ++round) {
    const auto pool = static_cast<std::int32_t>(1 + random() % 40);
    Indices indptr{0}, indices;
    for (int row = 0; row < 5; ++row) {
      for (auto n = random() % 7; n > 0; --n)
        indices.push_back(static_cast<std::int32_t>(random() % static_cast<unsigned>(pool)));
      indptr.push_back(static_cast<std::int32_t>(indices.size()));
    }
    const Compaction c = compact_pages(table_of(indptr, indices), pool);
    const std::set<std::int32_t> before(indices.begin(), indices.end());
    const std::set<std::int32_t> after(c.indices.begin(), c.indices.end());
    ASSERT_EQ(static_cast<std::int64_t>(before.size()), c.pages_used);
    ASSERT_EQ(after.size(), before.size());
    ASSERT_EQ(after.empty() ? 0 : *after.rbegin() + 1, c.pages_used);
    // The fewest copies, each of a page beyond to a free one below.
    ASSERT_EQ(static_cast<std::ptrdiff_t>(c.from.size()),
              std::count_if(before.begin(), before.end(),
                            [&](std::int32_t page) { return page >= c.pages_used; }));
    std::map<std::int32_t, std::int32_t> moved;
    for (std::size_t i = 0; i < c.from.size(); ++i) {
      ASSERT_TRUE(before.contains(c.from[i]));
      ASSERT_FALSE(before.contains(c.to[i]));
      moved[c.from[i]] = c.to[i];
    }
    for (std::size_t i = 0; i < indices.size(); ++i)
      ASSERT_EQ(c.indices[i], moved.contains(indices[i]) ? moved[indices[i]] : indices[i]);
  }
}

TEST(CompactPages, RefusesInWords) {
  const auto refuses = [](const Indices& indptr, const Indices& indices, std::int64_t pages,
                          const std::string& text) {
    expect_error(ErrorKind::invalid_argument, {text},
                 [&] { compact_pages(table_of(indptr, indices), pages); });
  };
  refuses({0, 2}, {0, 5}, 5, "indices[1] is 5");
  refuses({0, 2}, {0, -1}, 5, "indices[1] is -1");
  refuses({0, 2, 1}, {0, 1}, 5, "indptr[2] is 1");
  refuses({-1, 2}, {0, 1}, 5, "indptr[0] is -1");
  refuses({0, 3}, {0, 1}, 5, "indptr ends with 3");
  refuses({0, 3}, {}, 5, "contiguous");
  refuses({}, {}, 5, "indptr is empty");
  refuses({0}, {}, -1, "pool_pages is -1");
  refuses({0}, {}, std::int64_t{1} << 31, "pool_pages is 2147483648");
}

}  // namespace
}  // namespace trencadis
