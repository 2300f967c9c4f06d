#include "support/device_mirror.h"

namespace trencadis::testing {
namespace {

/// Bytes from the first element to behind the last.
std::size_t extent(const TensorView& view) {
  if (view.num_elements() == 0) return 0;
  std::int64_t last = 0;
  for (int d = 0; d < view.rank(); ++d) last += (view.size(d) - 1) * view.stride(d);
  return static_cast<std::size_t>((last + 1) * size_of(view.dtype()));
}

}  // namespace

cuda::ContextPointer test_device() {
  static const cuda::ContextPointer context = cuda::PrimaryContext::retain(cuda::driver(), 0);
  return context;
}

DeviceMirror::DeviceMirror(const TensorView& host)
    : host_(host), bytes_(host.defined() ? extent(host) : 0) {
  if (!host.defined()) return;
  // An address that is not the allocation's own, as views have them, but aligned as the host's.
  constexpr std::size_t kFront = 256;  // of which allocations are multiples
  memory_ = cuda::DeviceBuffer(test_device(), kFront + bytes_ + kFront);
  const auto misalignment = reinterpret_cast<std::uintptr_t>(host.data()) % 16;
  const cuda::DevicePointer begin = memory_.get() + kFront + misalignment;
  if (bytes_ > 0) {
    const cuda::ContextGuard guard(*test_device());
    cuda::driver().memcpy_htod_async(begin, host.data(), bytes_, nullptr);
    cuda::driver().stream_synchronize(nullptr);
  }
  view_ = TensorView(reinterpret_cast<void*>(begin), host.dtype(), host.shape(), host.strides(),
                     Device{DeviceKind::cuda, 0});
}

void DeviceMirror::fetch() const {
  synchronize_device();
  if (bytes_ == 0) return;
  const cuda::ContextGuard guard(*test_device());
  cuda::driver().memcpy_dtoh(host_.data(), reinterpret_cast<cuda::DevicePointer>(view_.data()),
                             bytes_);
}

void synchronize_device() {
  const cuda::ContextGuard guard(*test_device());
  cuda::driver().stream_synchronize(nullptr);
}

}  // namespace trencadis::testing
