#include "serving/device_tensor.h"

#include <functional>
#include <numeric>

#include "output/failure.h"
#include "serving/layers.h"

namespace trencadis::app {
namespace {

constexpr const char* kRemedy = "lower --pool-tokens, --layers or --max-batch";

DeviceMemory allocate(const char* what, Device device, double bytes) {
  const auto total = static_cast<double>(gpu_memory_bytes(device.index));
  if (bytes > total)
    fail(ErrorKind::out_of_capacity, "{} needs {:.1f} GiB and {} has {:.1f} GiB; {}", what,
         bytes / 0x1p30, to_string(device), total / 0x1p30, kRemedy);
  try {
    return {device, static_cast<std::int64_t>(bytes)};
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_capacity) throw;
    fail(ErrorKind::out_of_capacity, "{} needs {:.1f} GiB: {}; {}", what, bytes / 0x1p30,
         error.what(), kRemedy);
  }
}

}  // namespace

DeviceTensor::DeviceTensor(const char* what, Device device, DType dtype,
                           std::initializer_list<std::int64_t> shape) {
  const double bytes = std::accumulate(shape.begin(), shape.end(),
                                       static_cast<double>(size_of(dtype)), std::multiplies<>());
  memory_.emplace(allocate(what, device, bytes));
  memory_->fill(0xFF);
  view_ = TensorView(memory_->data(), dtype, shape, device);
}

void DeviceTensor::upload(const TensorView& host) {
  memory_->upload(host.data(), host.num_elements() * size_of(host.dtype()));
}

void DeviceTensor::upload(std::span<const std::int32_t> values) {
  memory_->upload(values.data(), static_cast<std::int64_t>(values.size_bytes()));
}

void DeviceTensor::download(const TensorView& part, void* host) const {
  const std::int64_t offset =
      static_cast<const std::byte*>(part.data()) - static_cast<const std::byte*>(view_.data());
  memory_->download(host, part.num_elements() * size_of(part.dtype()), offset);
}

}  // namespace trencadis::app
