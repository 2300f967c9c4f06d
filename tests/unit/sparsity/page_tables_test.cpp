#include <trencadis/block_sparse.h>

#include "support/expect_error.h"

namespace trencadis {
namespace {

using ::testing::ElementsAre;
using testing::expect_error;
using ::testing::IsEmpty;
using Indices = std::vector<std::int32_t>;
using WideIndices = std::vector<std::int64_t>;

TEST(PageTable, KeepsThePagesThatHoldTokens) {
  // Request 0 has a spare page; request 1 has none at all.
  const BlockSparse matrix =
      from_page_table(Indices{0, 3, 3, 5}, Indices{7, 2, -1, 4, 9}, Indices{17, 0, 32}, 16);
  EXPECT_THAT(matrix.indptr, ElementsAre(0, 2, 2, 4));
  EXPECT_THAT(matrix.indices, ElementsAre(7, 2, 4, 9));
  EXPECT_THAT(matrix.kv_lens, ElementsAre(17, 0, 32));
  EXPECT_EQ(matrix.view().block_cols, 16);
  EXPECT_FALSE(matrix.mask.has_value());
}

TEST(PageTable, AnEmptyBatchIsOrdinary) {
  const BlockSparse matrix = from_page_table(Indices{0}, Indices{}, Indices{}, 16);
  EXPECT_THAT(matrix.indptr, ElementsAre(0));
  EXPECT_THAT(matrix.kv_lens, IsEmpty());
}

TEST(PageTable, AllPageSizesFromOneUp) {
  for (const std::int64_t page : {1, 2, 3, 5, 7, 16, 160, 1024}) {
    const BlockSparse matrix =
        from_page_table(Indices{0, 3}, Indices{5, 1, 3}, WideIndices{3 * page}, page);
    EXPECT_EQ(matrix.indices.size(), 3u);
    EXPECT_EQ(matrix.kv_lens[0], 3 * page);
  }
}

// V1: an indptr that does not start at 0 or decreases, lengths that disagree, too many tokens.
TEST(PageTable, V1MalformedTablesAreNamed) {
  const Indices pages{1, 2, 3};
  expect_error(ErrorKind::invalid_argument, {"indptr is empty"},
               [&] { from_page_table(Indices{}, pages, Indices{}, 16); });
  expect_error(ErrorKind::invalid_argument, {"indptr[0] is 1", "expected 0"}, [&] {
    from_page_table(Indices{1, 3}, pages, Indices{16}, 16);
  });
  expect_error(ErrorKind::invalid_argument, {"indptr[2] is 1", "indptr[1] = 2"}, [&] {
    from_page_table(Indices{0, 2, 1}, pages, Indices{16, 0}, 16);
  });
  expect_error(ErrorKind::invalid_argument, {"length mismatch", "kv_lens has 1", "expected 2"},
               [&] {
                 from_page_table(Indices{0, 1, 3}, pages, Indices{16}, 16);
               });
  expect_error(ErrorKind::invalid_argument, {"indices has 3 entries", "indptr[1] = 4"}, [&] {
    from_page_table(Indices{0, 4}, pages, Indices{16}, 16);
  });
  expect_error(ErrorKind::invalid_argument, {"kv_lens[0] is 49", "at most 48"}, [&] {
    from_page_table(Indices{0, 3}, pages, Indices{49}, 16);
  });
  expect_error(ErrorKind::invalid_argument, {"kv_lens[0] is -1"}, [&] {
    from_page_table(Indices{0, 3}, pages, Indices{-1}, 16);
  });
  expect_error(ErrorKind::invalid_argument, {"indices[1] is -5"}, [&] {
    from_page_table(Indices{0, 2}, Indices{1, -5}, Indices{32}, 16);
  });
  expect_error(ErrorKind::invalid_argument, {"page_size is 0"}, [&] {
    from_page_table(Indices{0, 3}, pages, Indices{16}, 0);
  });
}

// V2: int64 is read as int64, and refused where it does not fit.
TEST(PageTable, V2WideIndicesAreReadAsWhatTheyAre) {
  const BlockSparse wide =
      from_page_table(WideIndices{0, 1, 3}, WideIndices{70000, 2, 1}, WideIndices{5, 20}, 16);
  const BlockSparse narrow =
      from_page_table(Indices{0, 1, 3}, Indices{70000, 2, 1}, Indices{5, 20}, 16);
  EXPECT_EQ(wide.indptr, narrow.indptr);
  EXPECT_EQ(wide.indices, narrow.indices);
  EXPECT_EQ(wide.kv_lens, narrow.kv_lens);
  expect_error(ErrorKind::invalid_argument, {"indices[0] is 4294967297", "2147483647"}, [] {
    from_page_table(WideIndices{0, 1}, WideIndices{(std::int64_t{1} << 32) + 1}, WideIndices{5},
                    16);
  });
}

TEST(LastPageLens, GiveTheLengths) {
  const BlockSparse matrix =
      from_last_page_lens(Indices{0, 2, 2, 3}, Indices{8, 3, 5}, Indices{1, 0, 16}, 16);
  EXPECT_THAT(matrix.kv_lens, ElementsAre(17, 0, 16));
  EXPECT_THAT(matrix.indices, ElementsAre(8, 3, 5));
}

TEST(LastPageLens, V1ALastPageIsNeitherEmptyNorOverfull) {
  expect_error(ErrorKind::invalid_argument, {"last_page_lens[0] is 0", "1 .. 16"}, [] {
    from_last_page_lens(Indices{0, 2}, Indices{8, 3}, Indices{0}, 16);
  });
  expect_error(ErrorKind::invalid_argument, {"last_page_lens[0] is 17", "1 .. 16"}, [] {
    from_last_page_lens(Indices{0, 2}, Indices{8, 3}, Indices{17}, 16);
  });
  expect_error(ErrorKind::invalid_argument, {"KV length of request[0] is 3221225472"}, [] {
    const std::int64_t page = std::int64_t{1} << 30;
    from_last_page_lens(Indices{0, 3}, Indices{1, 2, 3}, WideIndices{page}, page);
  });
}

// G2: what lies behind a request's pages is never read.
TEST(PaddedTable, UnusedEntriesMayHoldAnything) {
  const BlockSparse matrix = from_padded_table(Indices{4, 0, -1,  //
                                                       0, 0, 0,   //
                                                       6, 7, 8},
                                               3, Indices{16, 0, 33}, 16);
  EXPECT_THAT(matrix.indptr, ElementsAre(0, 1, 1, 4));
  EXPECT_THAT(matrix.indices, ElementsAre(4, 6, 7, 8));
}

TEST(PaddedTable, ShapeAndLengthsMustAgree) {
  expect_error(ErrorKind::invalid_argument, {"table has 5 entries", "2 requests x 3 pages"}, [] {
    from_padded_table(Indices{1, 2, 3, 4, 5}, 3, Indices{1, 1}, 16);
  });
  expect_error(ErrorKind::invalid_argument, {"kv_lens[1] is 49", "at most 48"}, [] {
    from_padded_table(Indices{1, 2, 3, 4, 5, 6}, 3, Indices{1, 49}, 16);
  });
  expect_error(ErrorKind::invalid_argument, {"table[1] is -1"}, [] {
    from_padded_table(Indices{1, -1}, 2, Indices{17}, 16);
  });
  EXPECT_THAT(from_padded_table(Indices{}, 0, Indices{0, 0}, 16).kv_lens, ElementsAre(0, 0));
}

TEST(Ragged, RequestsLieEndToEnd) {
  const BlockSparse matrix = from_ragged(WideIndices{0, 3, 3, 10});
  EXPECT_EQ(matrix.block_cols, 1);
  EXPECT_THAT(matrix.indptr, ElementsAre(0, 3, 3, 10));
  EXPECT_THAT(matrix.indices, IsEmpty());
  EXPECT_THAT(matrix.kv_lens, ElementsAre(3, 0, 7));
  expect_error(ErrorKind::invalid_argument, {"kv_indptr[2] is 1", "kv_indptr[1] = 2"}, [] {
    from_ragged(WideIndices{0, 2, 1});
  });
}

}  // namespace
}  // namespace trencadis
