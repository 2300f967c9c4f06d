#include "gpu/device_tensor.h"

#include <algorithm>
#include <cstddef>

#include "support/backend_under_test.h"

namespace trencadis::testing {
namespace {

std::int64_t extent(const TensorView& view) {
  if (view.num_elements() == 0) return 0;
  std::int64_t last = 0;
  for (int d = 0; d < view.rank(); ++d) last += (view.size(d) - 1) * view.stride(d);
  return (last + 1) * static_cast<std::int64_t>(size_of(view.dtype()));
}

/// As far from a multiple of 16 bytes as on the host: kernels look at that.
std::int64_t misalignment(const TensorView& view) {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(view.data()) % 16);
}

}  // namespace

Device device_under_test(int index) {
  if (backend_under_test() == BackendKind::cuda) return {DeviceKind::cuda, index};
  return {DeviceKind::cpu, 0};
}

DeviceTensor::DeviceTensor(const TensorView& host, Device device)
    : host_(host),
      bytes_(host.defined() ? extent(host) : 0),
      front_(misalignment(host)),
      // An address is due where there is no element, too.
      memory_(device, std::max<std::int64_t>(front_ + bytes_, 16)) {
  if (!host.defined()) return;
  view_ = place_of(host);
  bring();
}

TensorView DeviceTensor::place_of(const TensorView& part) const {
  const auto offset =
      static_cast<const std::byte*>(part.data()) - static_cast<const std::byte*>(host_.data());
  return TensorView(static_cast<std::byte*>(memory_.data()) + front_ + offset, part.dtype(),
                    part.shape(), part.strides(), memory_.device());
}

void DeviceTensor::bring() {
  memory_.upload(host_.data(), bytes_, front_);
}

void DeviceTensor::fetch() const {
  memory_.download(host_.data(), bytes_, front_);
}

}  // namespace trencadis::testing
