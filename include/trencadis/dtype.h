// Element types of tensors.
#pragma once

#include <cstdint>
#include <string_view>

namespace trencadis {

enum class DType : std::uint8_t { f32, f16, bf16, f64, i32, i64, u8 };

/// Bytes of one element.
constexpr std::int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::f16:
    case DType::bf16:
      return 2;
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::u8:
      return 1;
  }
  return 0;
}

/// "float32", "bfloat16", ...: the names that NumPy and torch use.
std::string_view to_string(DType dtype) noexcept;

/// The inverse of to_string; short forms ("f32", "bf16", "half") are accepted too.
/// Throws Error(invalid_argument) with the list of names.
DType parse_dtype(std::string_view name);

}  // namespace trencadis
