#include <gmock/gmock.h>
#include <trencadis/dtype.h>
#include <trencadis/error.h>

namespace trencadis {
namespace {

constexpr DType kAll[] = {DType::f32, DType::f16, DType::bf16, DType::f64,
                          DType::i32, DType::i64, DType::u8};

TEST(DType, NamesAreInverseToParsing) {
  for (const DType dtype : kAll) EXPECT_EQ(parse_dtype(to_string(dtype)), dtype);
}

TEST(DType, ShortFormsAreAccepted) {
  EXPECT_EQ(parse_dtype("f32"), DType::f32);
  EXPECT_EQ(parse_dtype("half"), DType::f16);
  EXPECT_EQ(parse_dtype("bf16"), DType::bf16);
}

TEST(DType, AnUnknownNameIsAnErrorThatListsTheKnownOnes) {
  try {
    parse_dtype("fp4");
    FAIL() << "fp4 was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("\"fp4\""));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("bfloat16"));
  }
}

TEST(ErrorKind, EveryKindHasItsOwnName) {
  EXPECT_EQ(to_string(ErrorKind::invalid_argument), "invalid argument");
  EXPECT_EQ(to_string(ErrorKind::out_of_capacity), "out of capacity");
  EXPECT_EQ(to_string(ErrorKind::io), "io");
}

}  // namespace
}  // namespace trencadis
