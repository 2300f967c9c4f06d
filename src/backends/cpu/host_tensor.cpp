#include "backends/cpu/host_tensor.h"

#include <cstddef>

#include "base/check.h"
#include "base/float16.h"

namespace trencadis::cpu {

IndexSpan index_span(const TensorView& array) {
  if (!array.defined()) return {};
  const auto size = static_cast<std::size_t>(array.num_elements());
  if (array.dtype() == DType::i64)
    return std::span<const std::int64_t>(array.data_as<std::int64_t>(), size);
  return std::span<const std::int32_t>(array.data_as<std::int32_t>(), size);
}

std::int64_t count_of(const char* name, const TensorView& count, std::int64_t capacity) {
  if (!count.defined()) return capacity;
  const std::int64_t value = *count.data_as<std::int32_t>();
  base::check(value >= 0 && value <= capacity, "{} holds {}, expected 0 to {}", name, value,
              capacity);
  return value;
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
