// A tensor argument together with what it should be. Checks form no text unless they fail; messages
// name the argument, what came and what was expected.
#pragma once

#include <fmt/ranges.h>
#include <trencadis/tensor_view.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "base/check.h"

namespace trencadis::engine {

class Argument {
 public:
  Argument(const char* name, const TensorView& tensor) : name_(name), tensor_(tensor) {}

  void expect(DType dtype, Device device, int rank) const {
    base::check(tensor_.defined(), "{} is missing: expected a {} tensor of rank {}", name_,
                to_string(dtype), rank);
    if (tensor_.dtype() != dtype) [[unlikely]]
      base::fail(ErrorKind::type_mismatch, "{} is {}, expected dtype {}", name_, tensor_,
                 to_string(dtype));
    expect_on(device);
    base::check(tensor_.rank() == rank, "{} is {}, expected rank {}", name_, tensor_, rank);
  }

  /// float32, float16 or bfloat16. `dims` says what its dimensions are: "[n, H, D]".
  void expect_floating(Device device, int rank, const char* dims) const {
    base::check(tensor_.defined(), "{} is missing: expected {}", name_, dims);
    const DType dtype = tensor_.dtype();
    if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16) [[unlikely]]
      base::fail(ErrorKind::type_mismatch, "{} is {}, expected float32, float16 or bfloat16", name_,
                 tensor_);
    expect_on(device);
    base::check(tensor_.rank() == rank, "{} is {}, expected rank {}: {}", name_, tensor_, rank,
                dims);
  }

  void expect_shape(std::span<const std::int64_t> shape) const {
    base::check(std::ranges::equal(tensor_.shape(), shape), "{} is {}, expected shape [{}]", name_,
                tensor_, fmt::join(shape, ", "));
  }

  /// A contiguous array on `device`.
  void expect_array(DType dtype, Device device) const {
    expect(dtype, device, 1);
    expect_contiguous();
  }
  void expect_array(DType dtype, Device device, std::int64_t size) const {
    expect_array(dtype, device);
    expect_shape(std::array{size});
  }

  void expect_size(int dim, std::int64_t size, const char* meaning) const {
    base::check(tensor_.size(dim) == size, "{} is {}, expected {} = {} in dimension {}", name_,
                tensor_, meaning, size, dim);
  }

  void expect_at_least(int dim, std::int64_t size, const char* meaning) const {
    base::check(tensor_.size(dim) >= size, "{} is {}, expected at least {} {} in dimension {}",
                name_, tensor_, size, meaning, dim);
  }

  void expect_unit_stride() const {
    const int last = tensor_.rank() - 1;
    base::check(tensor_.stride(last) == 1 || tensor_.size(last) <= 1,
                "{} is {}, expected stride 1 in the last dimension (other strides are free)", name_,
                tensor_);
  }

  void expect_contiguous() const {
    std::int64_t stride = 1;
    for (int d = tensor_.rank() - 1; d >= 0; --d) {
      base::check(tensor_.size(d) <= 1 || tensor_.stride(d) == stride,
                  "{} is {}, expected contiguous", name_, tensor_);
      stride *= tensor_.size(d);
    }
  }

 private:
  void expect_on(Device device) const {
    if (tensor_.device() != device) [[unlikely]]
      base::fail(ErrorKind::type_mismatch, "{} is {}, expected a tensor on {}", name_, tensor_,
                 to_string(device));
    base::check(tensor_.data() != nullptr || tensor_.num_elements() == 0,
                "{} is {} with a null data pointer", name_, tensor_);
  }

  const char* name_;
  const TensorView& tensor_;
};

}  // namespace trencadis::engine
