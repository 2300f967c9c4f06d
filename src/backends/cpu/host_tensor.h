// Reading and writing rows of host tensors as floats, for the operators that are not attention.
#pragma once

#include <trencadis/tensor_view.h>

#include <span>

namespace trencadis::cpu {

/// Throws Error(type_mismatch) unless `tensor` is on the CPU and of float32, float16 or bfloat16.
void expect_floating(const char* name, const TensorView& tensor);
/// Throws Error(type_mismatch | invalid_argument) unless dtype, device and shape are these.
void expect_tensor(const char* name, const TensorView& tensor, DType dtype,
                   std::span<const std::int64_t> shape);

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

}  // namespace trencadis::cpu
