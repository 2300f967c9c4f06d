#include <trencadis/tensor_view.h>

#include "base/check.h"

namespace trencadis {
namespace {

using base::check;
using base::fail;

std::string list(std::span<const std::int64_t> values) {
  return fmt::format("[{}]", fmt::join(values, ", "));
}

void check_shape(std::span<const std::int64_t> shape) {
  check(shape.size() <= TensorView::kMaxRank, "shape {} has rank {}, expected at most {}",
        list(shape), shape.size(), TensorView::kMaxRank);
  for (const std::int64_t extent : shape) {
    check(extent >= 0, "shape {} has extent {}, expected none below 0", list(shape), extent);
  }
}

DType from_dlpack_type(DLDataType type) {
  if (type.lanes == 1) {
    switch (type.code) {
      case kDLFloat:
        if (type.bits == 16) return DType::f16;
        if (type.bits == 32) return DType::f32;
        if (type.bits == 64) return DType::f64;
        break;
      case kDLBfloat:
        if (type.bits == 16) return DType::bf16;
        break;
      case kDLInt:
        if (type.bits == 32) return DType::i32;
        if (type.bits == 64) return DType::i64;
        break;
      case kDLUInt:
        if (type.bits == 8) return DType::u8;
        break;
      default:
        break;
    }
  }
  fail(ErrorKind::type_mismatch,
       "DLPack dtype (code {}, {} bits, {} lanes) is unknown, expected float32, float16, bfloat16, "
       "float64, int32, int64 or uint8 with one lane",
       type.code, type.bits, type.lanes);
}

DLDataType to_dlpack_type(DType dtype) {
  const auto bits = static_cast<std::uint8_t>(8 * size_of(dtype));
  switch (dtype) {
    case DType::f32:
    case DType::f16:
    case DType::f64:
      return {kDLFloat, bits, 1};
    case DType::bf16:
      return {kDLBfloat, bits, 1};
    case DType::i32:
    case DType::i64:
      return {kDLInt, bits, 1};
    case DType::u8:
      return {kDLUInt, bits, 1};
  }
  fail(ErrorKind::internal, "dtype {} has no DLPack form", static_cast<int>(dtype));
}

Device from_dlpack_device(DLDevice device) {
  switch (device.device_type) {
    case kDLCPU:
    case kDLCUDAHost:  // page-locked, but the host's memory all the same
      return {DeviceKind::cpu, 0};
    case kDLCUDA:
    case kDLCUDAManaged:
      return {DeviceKind::cuda, device.device_id};
    default:
      fail(ErrorKind::type_mismatch, "DLPack device type {} is unknown, expected CPU or CUDA",
           static_cast<int>(device.device_type));
  }
}

}  // namespace

std::string to_string(Device device) {
  return device.kind == DeviceKind::cpu ? "cpu" : fmt::format("cuda:{}", device.index);
}

TensorView::TensorView(void* data, DType dtype, std::span<const std::int64_t> shape, Device device)
    : data_(data), dtype_(dtype), device_(device) {
  check_shape(shape);
  rank_ = static_cast<std::int8_t>(shape.size());
  std::int64_t stride = 1;
  for (std::size_t dim = shape.size(); dim-- > 0;) {
    shape_[dim] = shape[dim];
    strides_[dim] = stride;
    // An extent of 0 leaves the other strides meaningful, as NumPy and torch have it.
    const std::int64_t extent = shape[dim] == 0 ? 1 : shape[dim];
    check(!__builtin_mul_overflow(stride, extent, &stride), "shape {} has more than 2^63 elements",
          list(shape));
  }
}

TensorView::TensorView(void* data, DType dtype, std::initializer_list<std::int64_t> shape,
                       Device device)
    : TensorView(data, dtype, std::span(shape.begin(), shape.size()), device) {}

TensorView::TensorView(void* data, DType dtype, std::span<const std::int64_t> shape,
                       std::span<const std::int64_t> strides, Device device)
    : data_(data), dtype_(dtype), device_(device) {
  check_shape(shape);
  check(strides.size() == shape.size(), "strides {} have rank {}, expected {} as shape {}",
        list(strides), strides.size(), shape.size(), list(shape));
  rank_ = static_cast<std::int8_t>(shape.size());
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    shape_[dim] = shape[dim];
    strides_[dim] = strides[dim];
  }
}

TensorView TensorView::from_dlpack(const DLTensor& tensor) {
  const DType dtype = from_dlpack_type(tensor.dtype);
  const Device device = from_dlpack_device(tensor.device);
  check(tensor.ndim >= 0 && tensor.ndim <= kMaxRank, "DLPack rank is {}, expected 0 .. {}",
        tensor.ndim, kMaxRank);
  const auto rank = static_cast<std::size_t>(tensor.ndim);
  void* data =
      tensor.data == nullptr ? nullptr : static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  const std::span<const std::int64_t> shape(tensor.shape, rank);
  if (tensor.strides == nullptr) return TensorView(data, dtype, shape, device);
  return TensorView(data, dtype, shape, std::span<const std::int64_t>(tensor.strides, rank),
                    device);
}

DLTensor TensorView::to_dlpack() const {
  DLTensor tensor{};
  tensor.data = data_;
  tensor.device = {device_.kind == DeviceKind::cpu ? kDLCPU : kDLCUDA, device_.index};
  tensor.ndim = rank_;
  tensor.dtype = to_dlpack_type(dtype_);
  // DLPack's arrays are not const, though a consumer may not write them.
  tensor.shape = const_cast<std::int64_t*>(shape_.data());
  tensor.strides = const_cast<std::int64_t*>(strides_.data());
  tensor.byte_offset = 0;
  return tensor;
}

std::int64_t TensorView::num_elements() const noexcept {
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape()) elements *= extent;
  return elements;
}

TensorView TensorView::slice(int dim, std::int64_t begin, std::int64_t end) const {
  check(dim >= 0 && dim < rank_, "slice: dimension is {}, expected 0 .. {} of {}", dim, rank_ - 1,
        *this);
  check(0 <= begin && begin <= end && end <= size(dim),
        "slice: range is [{}, {}), expected within [0, {}) of dimension {} of {}", begin, end,
        size(dim), dim, *this);
  TensorView result = *this;
  const auto at = static_cast<std::size_t>(dim);
  result.shape_[at] = end - begin;
  if (data_ != nullptr) {
    result.data_ = static_cast<std::byte*>(data_) + begin * strides_[at] * size_of(dtype_);
  }
  return result;
}

TensorView TensorView::select(int dim, std::int64_t index) const {
  check(dim >= 0 && dim < rank_, "select: dimension is {}, expected 0 .. {} of {}", dim, rank_ - 1,
        *this);
  check(0 <= index && index < size(dim),
        "select: index is {}, expected 0 .. {} of dimension {} of {}", index, size(dim) - 1, dim,
        *this);
  TensorView result = slice(dim, index, index + 1);
  for (int d = dim; d + 1 < rank_; ++d) {
    result.shape_[static_cast<std::size_t>(d)] = size(d + 1);
    result.strides_[static_cast<std::size_t>(d)] = stride(d + 1);
  }
  --result.rank_;
  result.shape_[static_cast<std::size_t>(result.rank_)] = 0;
  result.strides_[static_cast<std::size_t>(result.rank_)] = 0;
  return result;
}

std::string TensorView::describe() const {
  if (!defined()) return "undefined tensor";
  return fmt::format("{}{} strides {} on {}", to_string(dtype_), list(shape()), list(strides()),
                     to_string(device_));
}

}  // namespace trencadis
