#include <trencadis/block_sparse.h>

#include "support/expect_error.h"

namespace trencadis {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using testing::expect_error;
using ::testing::IsEmpty;
using Indices = std::vector<std::int32_t>;
using Bytes = std::vector<std::uint8_t>;

TEST(Mask, EmptyBlocksAreDroppedAndPartlyTrueOnesKeepTheirElements) {
  const Bytes mask{1, 1, 0, 0, 0,  //
                   1, 1, 0, 0, 1,  //
                   0, 0, 1, 1, 0};
  const BlockSparse matrix = from_mask(mask, 3, 5, 2, 2);
  EXPECT_THAT(matrix.row_indptr, ElementsAre(0, 2, 3));
  EXPECT_THAT(matrix.row_requests, ElementsAre(0, 0));
  EXPECT_THAT(matrix.indptr, ElementsAre(0, 2, 3));
  EXPECT_THAT(matrix.indices, ElementsAre(0, 2, 1));
  EXPECT_THAT(matrix.positions, ElementsAre(0, 2, 1));
  EXPECT_THAT(matrix.kv_lens, ElementsAre(3, 2)) << "the last block column has one token";
  ASSERT_TRUE(matrix.mask.has_value());
  EXPECT_THAT(expand(matrix, Indices{0, 3}, Indices{5}, 0), ElementsAreArray(mask));
}

TEST(Mask, WholeBlocksNeedNoElements) {
  const Bytes mask{1, 1, 0, 0,  //
                   1, 1, 0, 0};
  const BlockSparse matrix = from_mask(mask, 2, 4, 2, 2);
  EXPECT_FALSE(matrix.mask.has_value());
  EXPECT_THAT(expand(matrix, Indices{0, 2}, Indices{4}, 0), ElementsAreArray(mask));
}

TEST(Mask, ARowThatSeesNothingHasNoBlocks) {
  const BlockSparse matrix = from_mask(Bytes{0, 0, 1, 1}, 2, 2, 1, 2);
  EXPECT_THAT(matrix.kv_lens, ElementsAre(0, 2));
  EXPECT_THAT(from_mask(Bytes{}, 0, 5, 2, 2).kv_lens, IsEmpty());
  EXPECT_THAT(from_mask(Bytes{}, 3, 0, 2, 2).kv_lens, ElementsAre(0, 0));
}

TEST(BlockMask, NamesTheBlocksThatAreKept) {
  const BlockSparse matrix = from_block_mask(Bytes{0, 1, 1, 0}, 3, 5, 2, 3);
  EXPECT_THAT(matrix.indices, ElementsAre(1, 0));
  EXPECT_THAT(matrix.kv_lens, ElementsAre(2, 3));
  EXPECT_THAT(expand(matrix, Indices{0, 3}, Indices{5}, 0), ElementsAre(0, 0, 0, 1, 1,  //
                                                                        0, 0, 0, 1, 1,  //
                                                                        1, 1, 1, 0, 0));
}

// V3: a mask of the wrong shape.
TEST(Mask, V3ShapesMustAgree) {
  expect_error(ErrorKind::invalid_argument, {"mask has 150 elements", "10 rows x 20 columns"},
               [] { from_mask(Bytes(150), 10, 20, 1, 1); });
  expect_error(ErrorKind::invalid_argument, {"block_mask has 5", "2 rows x 2 columns"},
               [] { from_block_mask(Bytes(5), 10, 20, 5, 10); });
  expect_error(ErrorKind::invalid_argument, {"block_cols is 0"},
               [] { from_mask(Bytes(4), 2, 2, 1, 0); });
  expect_error(ErrorKind::invalid_argument, {"rows is -1"},
               [] { from_mask(Bytes{}, -1, 2, 1, 1); });
}

TEST(PackMasks, BitsAreLittleEndianAndRequestsByteAligned) {
  Bytes first{1, 0, 1, 0, 0, 1, 0, 0, 0, 1}, second{0, 1};
  const std::vector<TensorView> masks{TensorView(first.data(), DType::u8, {2, 5}),
                                      TensorView(second.data(), DType::u8, {2, 1})};
  const PackedMask packed = pack_masks(masks, Indices{0, 2, 4}, Indices{5, 1});
  EXPECT_THAT(packed.indptr, ElementsAre(0, 2, 3));
  EXPECT_THAT(packed.bits, ElementsAre(0b00100101, 0b10, 0b10));
}

TEST(PackMasks, V3EveryMaskIsQueryRowsByKeys) {
  Bytes bytes(200, 1);
  const auto pack = [&](std::int64_t rows, std::int64_t cols, DType dtype = DType::u8) {
    return [&bytes, rows, cols, dtype] {
      const std::vector<TensorView> masks{TensorView(bytes.data(), dtype, {rows, cols})};
      pack_masks(masks, Indices{0, 10}, Indices{20});
    };
  };
  expect_error(ErrorKind::invalid_argument, {"masks[0] is uint8[10, 15]", "[10, 20]"},
               pack(10, 15));
  expect_error(ErrorKind::invalid_argument, {"masks[0] is uint8[20, 10]", "[10, 20]"},
               pack(20, 10));
  expect_error(ErrorKind::type_mismatch, {"masks[0] is float32", "expected uint8"},
               pack(10, 20, DType::f32));
  EXPECT_NO_THROW(pack(10, 20)());
}

TEST(Expand, AMatrixOfAnotherProblemIsRefused) {
  const BlockSparse matrix = from_mask(Bytes(200, 1), 20, 10, 4, 5);
  expect_error(ErrorKind::invalid_argument, {"block row 2 covers query tokens [8, 12)"}, [&] {
    expand(matrix, Indices{0, 10}, Indices{20}, 0);
  });
  expect_error(ErrorKind::invalid_argument, {"stores position 7", "KV length 7"}, [&] {
    expand(matrix, Indices{0, 20}, Indices{7}, 0);
  });
  expect_error(ErrorKind::invalid_argument, {"request is 1"}, [&] {
    expand(matrix, Indices{0, 20}, Indices{10}, 1);
  });
}

}  // namespace
}  // namespace trencadis
