// What the planner knows of a device. Plain values: an H200, an RTX 4090 and a laptop are planned
// for, and tested, on any machine.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace trencadis {

struct DeviceLimits {
  std::string name;              // "h200", "cpu:2", ...
  int num_ctas = 1;              // persistent CTAs (CPU: work queues)
  double read_gbps = 100.0;      // device-memory read bandwidth of all CTAs together, 1e9 B/s
  double matmul_tflops = 1.0;    // sustained rate of the matrix units for 16-bit inputs
  std::int64_t tile_memory = 0;  // bytes a CTA may hold for q, k and v tiles
  std::int64_t l2_bytes = 0;     // of the cache that all CTAs share; 0: unknown
  int query_tiles = 1 | 16 | 32 | 64 | 128;  // T_q that the kernels for it have, each its bit
  int max_query_tile = 128;                  // largest of them in use
  int max_kv_tile = 128;                     // largest T_kv beside more than 16 rows
  int min_kv_tile = 32;                      // smallest T_kv
  int min_tensor_query_tile = 16;            // rows of the smallest matrix tile; 1: any
  double item_overhead_us = 1.0;             // prologue + epilogue of a work item
  double tile_overhead_us = 0.05;            // fixed cost of a KV tile
  friend bool operator==(const DeviceLimits&, const DeviceLimits&) = default;
};

/// "h200", "h100", "a100", "rtx4090", "laptop4": built-in descriptions.
std::span<const DeviceLimits> known_devices();

/// Throws Error(invalid_argument) with the known names.
const DeviceLimits& known_device(std::string_view name);

}  // namespace trencadis
