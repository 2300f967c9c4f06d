#include <trencadis/device_limits.h>

#include <array>

#include "base/check.h"

namespace trencadis {
namespace {

constexpr std::int64_t kKiB = 1024;
constexpr std::int64_t kMiB = 1024 * kKiB;

/// Rates are what kernels sustain, not what data sheets promise. h200: 4,600 GB/s measured with
/// plain reads; the others are the same share of their peak. Overheads are estimates until the
/// kernels of a device are measured; a plan depends on their ratio to a tile, not on their value.
/// L2: NVIDIA's white papers of the A100 (40 MB), the H100 (50 MB, of 60 MB that the die has) and
/// the RTX 4090 (72 MB). The H200 is the H100's die and is taken for as much here; its driver
/// reports 60 MB, and the CUDA backend goes by its driver.
const std::array<DeviceLimits, 5>& devices() {
  const auto gpu = [](const char* name, int sms, double gbps, double tflops, std::int64_t kib,
                      std::int64_t l2_mib, double item_us, double tile_us) {
    return DeviceLimits{.name = name,
                        .num_ctas = sms,
                        .read_gbps = gbps,
                        .matmul_tflops = tflops,
                        .tile_memory = kib * kKiB,
                        .l2_bytes = l2_mib * kMiB,
                        .item_overhead_us = item_us,
                        .tile_overhead_us = tile_us};
  };
  static const std::array<DeviceLimits, 5> all{{
      gpu("h200", 132, 4600, 670, 227, 50, 1.0, 0.02),
      gpu("h100", 132, 3200, 670, 227, 50, 1.0, 0.02),
      gpu("a100", 108, 1900, 230, 163, 40, 1.2, 0.03),
      gpu("rtx4090", 128, 960, 150, 99, 72, 1.0, 0.03),
      {.name = "laptop4",
       .num_ctas = 4,
       .read_gbps = 40,
       .matmul_tflops = 0.4,
       .tile_memory = 512 * kKiB,
       .min_tensor_query_tile = 1,
       .item_overhead_us = 1.0,
       .tile_overhead_us = 0.1},
  }};
  return all;
}

}  // namespace

std::span<const DeviceLimits> known_devices() {
  return devices();
}

const DeviceLimits& known_device(std::string_view name) {
  std::string names;
  for (const DeviceLimits& device : devices()) {
    if (device.name == name) return device;
    names += (names.empty() ? "" : ", ") + device.name;
  }
  base::fail(ErrorKind::invalid_argument, "device is \"{}\", expected one of {}", name, names);
}

}  // namespace trencadis
