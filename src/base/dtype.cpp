#include <trencadis/dtype.h>

#include <array>

#include "base/check.h"

namespace trencadis {
namespace {

struct DTypeName {
  std::string_view name;
  DType dtype;
};

// The first name of a dtype is the one that to_string gives.
constexpr std::array kNames = {
    DTypeName{"float32", DType::f32},   DTypeName{"float16", DType::f16},
    DTypeName{"bfloat16", DType::bf16}, DTypeName{"float64", DType::f64},
    DTypeName{"int32", DType::i32},     DTypeName{"int64", DType::i64},
    DTypeName{"uint8", DType::u8},      DTypeName{"f32", DType::f32},
    DTypeName{"float", DType::f32},     DTypeName{"f16", DType::f16},
    DTypeName{"fp16", DType::f16},      DTypeName{"half", DType::f16},
    DTypeName{"bf16", DType::bf16},     DTypeName{"fp32", DType::f32},
    DTypeName{"f64", DType::f64},       DTypeName{"double", DType::f64},
    DTypeName{"i32", DType::i32},       DTypeName{"i64", DType::i64},
    DTypeName{"u8", DType::u8},
};

}  // namespace

std::string_view to_string(DType dtype) noexcept {
  for (const DTypeName& entry : kNames) {
    if (entry.dtype == dtype) return entry.name;
  }
  return "unknown dtype";
}

DType parse_dtype(std::string_view name) {
  for (const DTypeName& entry : kNames) {
    if (entry.name == name) return entry.dtype;
  }
  base::fail(ErrorKind::invalid_argument,
             "dtype is \"{}\", expected one of float32, float16, bfloat16, float64, int32, int64, "
             "uint8 or a short form (f32, f16, half, bf16, f64, i32, i64, u8)",
             name);
}

}  // namespace trencadis
