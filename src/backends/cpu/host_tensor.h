// Reading and writing rows of host tensors as floats, for the operators that are not attention.
#pragma once

#include <trencadis/index_span.h>
#include <trencadis/tensor_view.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>

namespace trencadis::cpu {

/// The elements of a contiguous int32 or int64 array; none where it is undefined.
IndexSpan index_span(const TensorView& array);

/// A count that a tensor holds, int32 [1], or `capacity` where it is undefined. Throws
/// Error(invalid_argument) unless it is 0 to `capacity`.
std::int64_t count_of(const char* name, const TensorView& count, std::int64_t capacity);

/// The last dimension at `row` [n], any stride.
void load_row(const TensorView& tensor, const void* row, std::span<float> out);
/// Rounds to nearest even.
void store_row(const TensorView& tensor, std::span<const float> values, void* row);

/// Address of element (i, j) of the first two dimensions; or (i, j, l) of three.
inline char* at(const TensorView& tensor, std::int64_t i, std::int64_t j, std::int64_t l = 0) {
  std::int64_t offset = i * tensor.stride(0) + j * tensor.stride(1);
  if (l != 0) offset += l * tensor.stride(2);
  return static_cast<char*>(tensor.data()) + offset * size_of(tensor.dtype());
}

/// A counter that stays at its largest value.
constexpr std::int32_t count_on(std::int32_t count, std::int32_t more) {
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
  return more > kMost - std::max(count, 0) ? kMost : count + more;
}

}  // namespace trencadis::cpu
