#include "backends/cpu/row_copy.h"

#include <cstddef>
#include <cstring>
#include <limits>

#include "backends/cpu/host_tensor.h"

namespace trencadis::cpu {
namespace {

float largest_finite(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return 65504.0f;
    case DType::bf16:
      return 0x1.FEp127f;
    default:
      return std::numeric_limits<float>::max();
  }
}

}  // namespace

RowCopy::RowCopy(const TensorView& from, const TensorView& to)
    : from_(from),
      to_(to),
      limit_(largest_finite(to.dtype())),
      buffer_(static_cast<std::size_t>(to.size(to.rank() - 1))) {}

void RowCopy::copy(const char* from, char* to, std::int64_t begin) {
  const std::int64_t from_step = from_.stride(from_.rank() - 1) * size_of(from_.dtype());
  const std::int64_t to_step = to_.stride(to_.rank() - 1) * size_of(to_.dtype());
  from += begin * from_step;
  to += begin * to_step;
  const std::span<float> values = std::span(buffer_).subspan(static_cast<std::size_t>(begin));
  if (from_.dtype() == to_.dtype())
    return copy_bits(from, to, static_cast<std::int64_t>(values.size()));
  load_row(from_, from, values);
  store(values, to);
}

void RowCopy::store(std::span<float> values, char* to) const {
  // A NaN fails both comparisons and stays one.
  for (float& value : values) value = value > limit_ ? limit_ : value < -limit_ ? -limit_ : value;
  store_row(to_, values, to);
}

void RowCopy::copy_bits(const char* from, char* to, std::int64_t count) const {
  const auto bytes = static_cast<std::size_t>(size_of(to_.dtype()));
  const std::int64_t from_stride = from_.stride(from_.rank() - 1);
  const std::int64_t to_stride = to_.stride(to_.rank() - 1);
  if (from_stride == 1 && to_stride == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * bytes);
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    std::memcpy(to, from, bytes);
    from += from_stride * static_cast<std::int64_t>(bytes);
    to += to_stride * static_cast<std::int64_t>(bytes);
  }
}

}  // namespace trencadis::cpu
