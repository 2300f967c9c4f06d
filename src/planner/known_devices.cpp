#include <trencadis/device_limits.h>

#include <array>

#include "base/check.h"

namespace trencadis {
namespace {

constexpr std::int64_t kKiB = 1024;

/// Rates are what kernels sustain, not what data sheets promise. h200: 4,600 GB/s measured with
/// plain reads; the others are the same share of their peak. Overheads are estimates until the
/// kernels of a device are measured; a plan depends on their ratio to a tile, not on their value.
const std::array<DeviceLimits, 5>& devices() {
  static const std::array<DeviceLimits, 5> all{{
      {.name = "h200",
       .num_ctas = 132,
       .read_gbps = 4600,
       .matmul_tflops = 670,
       .tile_memory = 227 * kKiB,
       .max_query_tile = 128,
       .min_tensor_query_tile = 16,
       .item_overhead_us = 1.0,
       .tile_overhead_us = 0.02},
      {.name = "h100",
       .num_ctas = 132,
       .read_gbps = 3200,
       .matmul_tflops = 670,
       .tile_memory = 227 * kKiB,
       .max_query_tile = 128,
       .min_tensor_query_tile = 16,
       .item_overhead_us = 1.0,
       .tile_overhead_us = 0.02},
      {.name = "a100",
       .num_ctas = 108,
       .read_gbps = 1900,
       .matmul_tflops = 230,
       .tile_memory = 163 * kKiB,
       .max_query_tile = 128,
       .min_tensor_query_tile = 16,
       .item_overhead_us = 1.2,
       .tile_overhead_us = 0.03},
      {.name = "rtx4090",
       .num_ctas = 128,
       .read_gbps = 960,
       .matmul_tflops = 150,
       .tile_memory = 99 * kKiB,
       .max_query_tile = 128,
       .min_tensor_query_tile = 16,
       .item_overhead_us = 1.0,
       .tile_overhead_us = 0.03},
      {.name = "laptop4",
       .num_ctas = 4,
       .read_gbps = 40,
       .matmul_tflops = 0.4,
       .tile_memory = 512 * kKiB,
       .max_query_tile = 128,
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
