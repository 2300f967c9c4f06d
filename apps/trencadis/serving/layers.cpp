#include "serving/layers.h"

#include <trencadis/runtime.h>

#include "output/failure.h"
#include "serving/device_layers.h"
#include "serving/host_layers.h"

namespace trencadis::app {

std::unique_ptr<Layers> make_layers(const LayersOptions& options) {
  if (options.config.backend == BackendKind::cuda) return std::make_unique<DeviceLayers>(options);
  return std::make_unique<HostLayers>(options);
}

std::int64_t gpu_memory_bytes(int device_index) {
  const CudaDriverInfo driver = cuda_driver();
  for (const CudaDeviceInfo& device : driver.devices)
    if (device.ordinal == device_index) return device.memory_bytes;
  fail(ErrorKind::not_supported, "there is no GPU {}: {}", device_index,
       driver.available ? "the driver has fewer" : driver.reason);
}

}  // namespace trencadis::app
