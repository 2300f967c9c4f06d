#include <gmock/gmock.h>
#include <trencadis/tensor_view.h>

#include "support/expect_error.h"

namespace trencadis {
namespace {

using ::testing::ElementsAre;
using testing::expect_error;

TEST(TensorView, IsContiguousUnlessStridesAreGiven) {
  float data[24];
  const TensorView view(data, DType::f32, {2, 3, 4});
  EXPECT_THAT(view.strides(), ElementsAre(12, 4, 1));
  EXPECT_EQ(view.num_elements(), 24);
  EXPECT_EQ(view.describe(), "float32[2, 3, 4] strides [12, 4, 1] on cpu");
  EXPECT_FALSE(TensorView().defined());
}

TEST(TensorView, AnEmptyExtentKeepsTheOtherStrides) {
  const TensorView view(nullptr, DType::bf16, {0, 3, 4});
  EXPECT_THAT(view.strides(), ElementsAre(12, 4, 1));
  EXPECT_EQ(view.num_elements(), 0);
  EXPECT_TRUE(view.defined());
}

TEST(TensorView, SliceAndSelectShareMemory) {
  std::int32_t data[24];
  const TensorView view(data, DType::i32, {2, 3, 4});
  const TensorView rows = view.slice(1, 1, 3);
  EXPECT_THAT(rows.shape(), ElementsAre(2, 2, 4));
  EXPECT_THAT(rows.strides(), ElementsAre(12, 4, 1));
  EXPECT_EQ(rows.data(), data + 4);
  const TensorView column = view.select(1, 2).select(1, 3);
  EXPECT_THAT(column.shape(), ElementsAre(2));
  EXPECT_THAT(column.strides(), ElementsAre(12));
  EXPECT_EQ(column.data(), data + 11);
  EXPECT_EQ(view.slice(0, 2, 2).num_elements(), 0);
}

TEST(TensorView, BadArgumentsAreNamed) {
  float data[6];
  const TensorView view(data, DType::f32, {2, 3});
  expect_error(ErrorKind::invalid_argument, {"[0, 4)"}, [&] { view.slice(1, 0, 4); });
  expect_error(ErrorKind::invalid_argument, {"dimension is 2"}, [&] { view.slice(2, 0, 0); });
  expect_error(ErrorKind::invalid_argument, {"index is 2"}, [&] { view.select(0, 2); });
  expect_error(ErrorKind::invalid_argument, {"extent -1"}, [&] {
    TensorView(data, DType::f32, {2, -1});
  });
  expect_error(ErrorKind::invalid_argument, {"rank 7"}, [&] {
    TensorView(data, DType::f32, {1, 1, 1, 1, 1, 1, 1});
  });
}

TEST(TensorView, DlpackRoundTripKeepsEverything) {
  std::int64_t data[40];
  const std::int64_t shape[] = {2, 3}, strides[] = {20, 2};
  for (const DType dtype :
       {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32, DType::i64, DType::u8}) {
    const TensorView view(data, dtype, shape, strides, {DeviceKind::cuda, 3});
    const TensorView back = TensorView::from_dlpack(view.to_dlpack());
    EXPECT_EQ(back.describe(), view.describe());
    EXPECT_EQ(back.data(), view.data());
  }
}

TEST(TensorView, DlpackOffsetsAndNullStridesAreHonoured) {
  float data[12];
  std::int64_t shape[] = {2, 3};
  DLTensor tensor{};
  tensor.data = data;
  tensor.device = {kDLCPU, 0};
  tensor.ndim = 2;
  tensor.dtype = {kDLFloat, 32, 1};
  tensor.shape = shape;
  tensor.byte_offset = 8;
  const TensorView view = TensorView::from_dlpack(tensor);
  EXPECT_EQ(view.data(), data + 2);
  EXPECT_THAT(view.strides(), ElementsAre(3, 1));
  tensor.dtype.lanes = 4;
  expect_error(ErrorKind::type_mismatch, {"4 lanes"}, [&] { TensorView::from_dlpack(tensor); });
  tensor.dtype = {kDLComplex, 64, 1};
  expect_error(ErrorKind::type_mismatch, {"64 bits"}, [&] { TensorView::from_dlpack(tensor); });
  tensor.dtype = {kDLFloat, 32, 1};
  tensor.device.device_type = kDLROCM;
  expect_error(ErrorKind::type_mismatch, {"CPU or CUDA"}, [&] { TensorView::from_dlpack(tensor); });
}

}  // namespace
}  // namespace trencadis
