// Tensors that own memory of a GPU.
#pragma once

#include <trencadis/device.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>

namespace trencadis::app {

class DeviceTensor {
 public:
  /// Row-major, every byte 0xFF: NaN in each floating type. Throws Error(out_of_capacity) where the
  /// device has not that much memory; `what` names the tensor.
  DeviceTensor(const char* what, Device device, DType dtype,
               std::initializer_list<std::int64_t> shape);

  const TensorView& view() const { return view_; }
  std::int64_t bytes() const { return memory_->bytes(); }

  /// The first elements become those of `host`, which is contiguous. Returns when they are there;
  /// work that is queued on a stream is not waited for.
  void upload(const TensorView& host);
  void upload(std::span<const std::int32_t> values);

  /// Copies `part`, a contiguous part of view(), to the host.
  void download(const TensorView& part, void* host) const;

 private:
  std::optional<DeviceMemory> memory_;
  TensorView view_;
};

}  // namespace trencadis::app
