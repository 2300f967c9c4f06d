// Tensors on the device under test, through the public API: with TRENCADIS_TEST_BACKEND=cpu the
// same tests run on the host. Allocations end with the last element, so that compute-sanitizer sees
// an access behind it.
#pragma once

#include <trencadis/device.h>
#include <trencadis/tensor_view.h>

#include <cstdint>

namespace trencadis::testing {

/// The first, or another where there are several. The CPU is one device of any number.
Device device_under_test(int index = 0);

/// The memory of a host tensor, from its first element to its last, once more on the device.
class DeviceTensor {
 public:
  /// Brings what the view's memory holds. Strides are not negative. Undefined where `host` is.
  explicit DeviceTensor(const TensorView& host, Device device = device_under_test());

  TensorView view() const { return view_; }
  /// The place on the device of a view into the host tensor's memory.
  TensorView place_of(const TensorView& part) const;

  /// Host to device and back; nothing that is queued may use the tensor.
  void bring();
  void fetch() const;

 private:
  TensorView host_;
  std::int64_t bytes_, front_;
  DeviceMemory memory_;
  TensorView view_;
};

}  // namespace trencadis::testing
