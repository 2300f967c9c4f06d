#include "planner/cost_model.h"

#include <algorithm>
#include <cmath>

namespace trencadis::planner {
namespace {

/// How much faster than memory the cache that CTAs share is taken for.
constexpr double kCacheSpeed = 2.0;

/// At least 1, so that the line never stands still, and no more than a quarter of an hour.
Nanoseconds whole(double ns) {
  return std::llround(std::clamp(ns, 1.0, 1e12));
}

}  // namespace

CostModel make_cost_model(const AttentionSpec& spec, const DeviceLimits& device,
                          const TilePolicy& tiles) {
  const double bytes_per_ns = device.read_gbps / device.num_ctas;
  const double flops_per_ns = device.matmul_tflops * 1e3 / device.num_ctas;
  const int dims = spec.head_dim_qk + spec.vo();

  CostModel cost;
  cost.item = whole(device.item_overhead_us * 1e3);
  for (std::size_t i = 0; i < static_cast<std::size_t>(tiles.count); ++i) {
    const contract::TileClass& tile = tiles.classes[i];
    const double rows = std::max(tile.q_rows, device.min_tensor_query_tile);
    const double read =
        static_cast<double>(tile.kv_tokens * dims * size_of(spec.dtype_kv)) / bytes_per_ns;
    const double multiply = 2.0 * rows * tile.kv_tokens * dims / flops_per_ns;
    cost.tile[i] = whole(std::max(read, multiply) + device.tile_overhead_us * 1e3);
    cost.bound_by_products[i] = multiply > read / kCacheSpeed;
    // The states stay in a cache.
    const double states =
        4.0 * tile.q_rows * spec.vo() * sizeof(float) / (kCacheSpeed * bytes_per_ns);
    cost.split[i] = cost.item + whole(states);
  }
  return cost;
}

}  // namespace trencadis::planner
