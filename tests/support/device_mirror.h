// Host tensors in a device's memory, with the strides that they have on the host: what lies between
// the elements of a view travels too, and comes back, so that a write outside of it is seen.
#pragma once

#include <trencadis/tensor_view.h>

#include <cstddef>
#include <cstdint>

#include "backends/cuda/resources.h"

namespace trencadis::testing {

/// The device that tests use.
cuda::ContextPointer test_device();

class DeviceMirror {
 public:
  /// Copies the view's memory, from its first element to its last, to the device. Strides are not
  /// negative.
  explicit DeviceMirror(const TensorView& host);

  /// The same elements on the device.
  TensorView view() const { return view_; }
  /// Copies back what the device has made of them. Waits for the device.
  void fetch() const;

 private:
  TensorView host_;
  std::size_t bytes_ = 0;
  cuda::DeviceBuffer memory_;
  TensorView view_;
};

/// Waits until everything that was launched on the default stream is done.
void synchronize_device();

}  // namespace trencadis::testing
