// Tensors in host memory that tests own: filled with NaN until written, any strides by slicing.
#pragma once

#include <trencadis/tensor_view.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <span>
#include <vector>

namespace trencadis::testing {

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();

/// Element at `index` of a view of any dtype, as double.
double get(const TensorView& view, std::initializer_list<std::int64_t> index);
/// Rounds to the view's dtype, to nearest even.
void set(const TensorView& view, std::initializer_list<std::int64_t> index, double value);

/// Calls visit(byte offset from the view's data) for every element, in row-major order.
void for_each_element(const TensorView& view, const std::function<void(std::int64_t)>& visit);

/// Every element in row-major order.
std::vector<double> to_doubles(const TensorView& view);
/// Sets every element; generate() is called in row-major order.
void fill(const TensorView& view, const std::function<double()>& generate);
void fill(const TensorView& view, double value);

/// Owns the memory of a contiguous tensor. A copy has memory of its own; views stay valid when the
/// tensor is moved.
class HostTensor {
 public:
  HostTensor() = default;
  HostTensor(const HostTensor& other);
  HostTensor& operator=(const HostTensor& other) { return *this = HostTensor(other); }
  HostTensor(HostTensor&&) noexcept = default;
  HostTensor& operator=(HostTensor&&) noexcept = default;
  /// Every element is `value` (integers: 0 where it is not finite).
  HostTensor(DType dtype, std::vector<std::int64_t> shape, double value = kNan);

  /// float32, int32, ... from values, of rank 1.
  template <class T>
  static HostTensor from(DType dtype, const std::vector<T>& values) {
    HostTensor tensor(dtype, {static_cast<std::int64_t>(values.size())}, 0.0);
    std::size_t i = 0;
    fill(tensor.whole(), [&] { return static_cast<double>(values[i++]); });
    return tensor;
  }

  TensorView whole() const { return whole_; }
  std::span<std::byte> bytes() { return storage_; }
  std::span<const std::byte> bytes() const { return storage_; }

 private:
  std::vector<std::byte> storage_;
  TensorView whole_;
};

}  // namespace trencadis::testing
