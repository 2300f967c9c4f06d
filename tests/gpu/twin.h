// A tensor of any strides, once on the host and once on the device, with the same bytes around and
// between the rows: a service is called on both, and the whole memory must agree.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "gpu/device_tensor.h"
#include "support/host_tensor.h"

namespace trencadis::testing {

/// Where elements lie: row-major in the order of `order` (outermost first), with `padding` elements
/// behind each innermost row and `shift` before all.
struct Layout {
  std::vector<std::size_t> order = {};  // empty: as they come
  std::int64_t padding = 0;
  std::int64_t shift = 0;
};

class Twin {
 public:
  /// All of the memory is NaN.
  Twin(DType dtype, std::vector<std::int64_t> shape, const Layout& layout = {})
      : shape_(std::move(shape)), strides_(shape_.size(), 1), shift_(kGuard + layout.shift) {
    std::vector<std::size_t> order = layout.order;
    for (std::size_t dim = order.size(); dim < shape_.size(); ++dim) order.push_back(dim);
    std::int64_t stride = 1;
    for (std::size_t i = order.size(); i-- > 0;) {
      strides_[order[i]] = stride;
      stride *= shape_[order[i]];
      if (i + 1 == order.size()) stride += layout.padding;
    }
    memory_ = HostTensor(dtype, {shift_ + stride + kGuard});
    device_ = std::make_unique<DeviceTensor>(memory_.whole());
  }

  /// Uniform in [-2, 2), on both.
  Twin& fill(std::mt19937& random) {
    std::uniform_real_distribution<double> uniform(-2, 2);
    testing::fill(host(), [&] { return uniform(random); });
    device_->bring();
    return *this;
  }
  /// What the host's elements hold goes to the device.
  void bring() { device_->bring(); }

  TensorView host() const {
    const TensorView whole = memory_.whole();
    return TensorView(static_cast<std::byte*>(whole.data()) + shift_ * size_of(whole.dtype()),
                      whole.dtype(), shape_, strides_);
  }
  TensorView device() const { return device_->place_of(host()); }

  /// Of the whole memory: NaN where the host's is, all else within `steps` roundings of the dtype,
  /// relative to 1 or to the value.
  ::testing::AssertionResult agree(double steps = 0) {
    const std::vector<double> host = to_doubles(memory_.whole());
    const HostTensor kept = memory_;
    device_->fetch();
    const std::vector<double> device = to_doubles(memory_.whole());
    std::ranges::copy(kept.bytes(), memory_.bytes().begin());
    for (std::size_t i = 0; i < host.size(); ++i) {
      if (std::isnan(host[i]) && std::isnan(device[i])) continue;
      if (host[i] == device[i]) continue;
      const double tolerance = steps * rounding() * std::fmax(1, std::fabs(host[i]));
      if (!(std::fabs(host[i] - device[i]) <= tolerance))
        return ::testing::AssertionFailure()
               << "element " << static_cast<std::int64_t>(i) - shift_ << " of the memory of "
               << device_->view().describe() << " is " << device[i] << ", the CPU's is " << host[i];
    }
    return ::testing::AssertionSuccess();
  }

 private:
  static constexpr std::int64_t kGuard = 64;

  double rounding() const {
    const DType dtype = memory_.whole().dtype();
    return dtype == DType::bf16 ? 0x1p-8 : dtype == DType::f16 ? 0x1p-11 : 0x1p-24;
  }

  std::vector<std::int64_t> shape_, strides_;
  std::int64_t shift_;
  HostTensor memory_;
  std::unique_ptr<DeviceTensor> device_;
};

/// Contiguous integers, on both.
class TwinArray {
 public:
  template <class T>
  explicit TwinArray(const std::vector<T>& values)
      : memory_(HostTensor::from(sizeof(T) == 8 ? DType::i64 : DType::i32, values)),
        device_(std::make_unique<DeviceTensor>(memory_.whole())) {}

  TensorView host() const { return memory_.whole(); }
  TensorView device() const { return device_->view(); }
  /// What the device has made of it.
  std::int64_t fetched() const {
    const HostTensor kept = memory_;
    device_->fetch();
    const double value = get(memory_.whole(), {0});
    std::ranges::copy(kept.bytes(), static_cast<std::byte*>(memory_.whole().data()));
    return static_cast<std::int64_t>(value);
  }
  std::int64_t on_host() const { return static_cast<std::int64_t>(get(memory_.whole(), {0})); }
  void set_both(std::int64_t i, double value) {
    set(memory_.whole(), {i}, value);
    device_->bring();
  }

 private:
  HostTensor memory_;
  std::unique_ptr<DeviceTensor> device_;
};

/// Calls `service(place)` twice: with the place of tensors on the host, and on the device.
template <class Service>
void call_on_both(const Service& service) {
  service([](const auto& twin) { return twin.host(); });
  service([](const auto& twin) { return twin.device(); });
}

}  // namespace trencadis::testing
