#include "planner/tile_policy.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace trencadis::planner {
namespace {

constexpr int kStages = 2;  // K and V tiles in flight

/// The largest T_kv that fits, or 0. Few query rows are bound by memory: there small tiles keep
/// more stages in flight, and cut a short KV into more shares. Many rows reuse each KV tile from
/// registers, and there a long tile spreads the fixed cost of one.
std::int32_t choose_kv_tile(const AttentionSpec& spec, const DeviceLimits& device,
                            std::int32_t q_rows) {
  const std::int32_t largest =
      q_rows <= 16 ? std::max(64, device.min_kv_tile) : std::min(128, device.max_kv_tile);
  for (std::int32_t kv_tokens = largest; kv_tokens >= device.min_kv_tile; kv_tokens /= 2) {
    if (device.tile_memory == 0 || tile_bytes(spec, {q_rows, kv_tokens}) <= device.tile_memory) {
      return kv_tokens;
    }
  }
  return 0;
}

}  // namespace

std::int64_t tile_bytes(const AttentionSpec& spec, contract::TileClass tiles) {
  const std::int64_t query = std::int64_t{tiles.q_rows} * spec.head_dim_qk * size_of(spec.dtype_q);
  const std::int64_t key_value =
      std::int64_t{tiles.kv_tokens} * (spec.head_dim_qk + spec.vo()) * size_of(spec.dtype_kv);
  return query + kStages * key_value;
}

TilePolicy choose_tiles(const AttentionSpec& spec, const DeviceLimits& device) {
  TilePolicy policy;
  for (const std::int32_t q_rows : {1, 16, 32, 64, 128}) {
    // A single row needs no matrix unit; several rows fill at least the smallest matrix tile.
    if (q_rows > device.max_query_tile || (q_rows & device.query_tiles) == 0) continue;
    if (q_rows > 1 && q_rows < device.min_tensor_query_tile) continue;
    const std::int32_t kv_tokens = choose_kv_tile(spec, device, q_rows);
    if (kv_tokens == 0) continue;
    const auto slot = static_cast<std::size_t>(policy.count++);
    policy.classes[slot] = {q_rows, kv_tokens};
    policy.kv_shift[slot] = std::countr_zero(static_cast<std::uint32_t>(kv_tokens));
  }
  if (policy.count == 0) {
    base::fail(ErrorKind::not_supported,
               "head dims {} and {} need {} bytes for the smallest tiles, device {} has {}",
               spec.head_dim_qk, spec.vo(), tile_bytes(spec, {1, 32}), device.name,
               device.tile_memory);
  }
  for (std::int32_t rows = 0; rows <= kMaxQueryTile; ++rows) {
    std::uint8_t chosen = 0;
    while (chosen + 1 < policy.count && policy.classes[chosen].q_rows < rows) ++chosen;
    policy.by_rows[static_cast<std::size_t>(rows)] = chosen;
  }
  return policy;
}

}  // namespace trencadis::planner
