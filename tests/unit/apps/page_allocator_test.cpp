#include "serving/page_allocator.h"

#include <gtest/gtest.h>
#include <trencadis/error.h>

#include <set>

namespace trencadis::app {
namespace {

TEST(PageAllocator, GivesEachPageOnce) {
  PageAllocator pages(10);
  ASSERT_TRUE(pages.try_reserve(10));
  std::set<std::int32_t> taken;
  for (int i = 0; i < 10; ++i) taken.insert(pages.take());
  EXPECT_EQ(taken.size(), 10u);
  EXPECT_EQ(*taken.begin(), 0);
  EXPECT_EQ(*taken.rbegin(), 9);
  EXPECT_EQ(pages.available(), 0);
}

TEST(PageAllocator, AReservationIsKeptFromOthers) {
  PageAllocator pages(10);
  EXPECT_TRUE(pages.try_reserve(7));
  EXPECT_FALSE(pages.try_reserve(4));
  EXPECT_EQ(pages.available(), 3);
  EXPECT_TRUE(pages.try_reserve(3));
}

TEST(PageAllocator, ReleaseBringsBackPagesAndWhatWasNotUsed) {
  PageAllocator pages(4);
  ASSERT_TRUE(pages.try_reserve(4));
  const std::vector<std::int32_t> taken{pages.take(), pages.take()};
  pages.release(taken, /*unused_reservation=*/2);
  EXPECT_EQ(pages.available(), 4);
}

TEST(PageAllocator, RefusesToHandOutWhatNobodyReserved) {
  PageAllocator pages(4);
  EXPECT_THROW(pages.take(), Error);
  EXPECT_THROW(PageAllocator(0), Error);
}

}  // namespace
}  // namespace trencadis::app
