#include "backends/cpu/host_tensor.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/check.h"
#include "base/float16.h"

namespace trencadis::cpu {
namespace {

void expect_host(const char* name, const TensorView& tensor) {
  if (tensor.device().kind != DeviceKind::cpu)
    base::fail(ErrorKind::type_mismatch, "{} is {}, expected a tensor on the CPU", name, tensor);
  base::check(tensor.data() != nullptr || tensor.num_elements() == 0,
              "{} is {} with a null data pointer", name, tensor);
}

}  // namespace

void expect_floating(const char* name, const TensorView& tensor) {
  expect_host(name, tensor);
  const DType dtype = tensor.dtype();
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16)
    base::fail(ErrorKind::type_mismatch, "{} is {}, expected float32, float16 or bfloat16", name,
               tensor);
}

void expect_tensor(const char* name, const TensorView& tensor, DType dtype,
                   std::span<const std::int64_t> shape) {
  expect_host(name, tensor);
  if (tensor.dtype() != dtype)
    base::fail(ErrorKind::type_mismatch, "{} is {}, expected {}", name, tensor, to_string(dtype));
  base::check(std::ranges::equal(tensor.shape(), shape), "{} is {}, expected shape [{}]", name,
              tensor, fmt::join(shape, ", "));
}

void load_row(const TensorView& tensor, const void* row, std::span<float> out) {
  const std::int64_t stride = tensor.stride(tensor.rank() - 1);
  const auto each = [&](auto element, auto convert) {
    const auto* from = static_cast<const decltype(element)*>(row);
    for (float& value : out) {
      value = convert(*from);
      from += stride;
    }
  };
  switch (tensor.dtype()) {
    case DType::f16:
      return each(std::uint16_t{}, base::f16_to_float);
    case DType::bf16:
      return each(std::uint16_t{}, base::bf16_to_float);
    default:
      return each(float{}, [](float value) { return value; });
  }
}

void store_row(const TensorView& tensor, std::span<const float> values, void* row) {
  const std::int64_t stride = tensor.stride(tensor.rank() - 1);
  const auto each = [&](auto element, auto convert) {
    auto* to = static_cast<decltype(element)*>(row);
    for (const float value : values) {
      *to = convert(value);
      to += stride;
    }
  };
  switch (tensor.dtype()) {
    case DType::f16:
      return each(std::uint16_t{}, base::float_to_f16);
    case DType::bf16:
      return each(std::uint16_t{}, base::float_to_bf16);
    default:
      return each(float{}, [](float value) { return value; });
  }
}

}  // namespace trencadis::cpu
