#include "backends/cuda/kernel_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "backends/cuda/shared_memory.h"
#include "base/check.h"
#include "codegen/validate.h"
#include "contract/plan.h"
#include "planner/tile_policy.h"

namespace trencadis::cuda {
namespace {

constexpr int kStages = 2;  // as planner::tile_bytes counts them
/// What tables, and rows that hooks take apart, leave to the tiles at most; where they or the
/// padding of rows take more, tiles get less in steps.
constexpr std::int64_t kBesideTiles = 10 * 1024;
constexpr std::int64_t kStep = 1024;
constexpr std::int64_t kReserved = 1024;  // by the driver, in every CTA
/// Rows of the largest query tile. 128 rows by 64 tokens of 128 elements spill at four warps
/// (76 bytes a thread for sm_90a), 64 rows do not.
constexpr int kMaxQueryTile = 64;

/// Logits and outputs of a tile lie in registers: long rows of outputs leave room for fewer logits.
int max_kv_tile(const AttentionSpec& spec) {
  return std::max(spec.head_dim_qk, spec.vo()) > 128 ? 32 : 64;
}

/// Whether a CTA of so many warps can share out every tile (collective/shape.h).
bool shares_out(const planner::TilePolicy& tiles, int warps) {
  return std::all_of(tiles.classes.begin(), tiles.classes.begin() + tiles.count,
                     [&](const contract::TileClass& tile) {
                       if (tile.kv_tokens > warps * 32) return false;
                       if (tile.q_rows == 1) return warps * 32 % tile.kv_tokens == 0;
                       const int query_warps = std::min(warps, tile.q_rows / 16);
                       return tile.kv_tokens >= 16 * (warps / query_warps);
                     });
}

bool small_tiles(const std::vector<contract::TileClass>& classes) {
  return std::any_of(classes.begin(), classes.end(),
                     [](const contract::TileClass& tile) { return tile.kv_tokens < 64; });
}

/// The most warps that can share out every tile; 0: none can.
int most_warps(const planner::TilePolicy& tiles) {
  int warps = 4;
  while (warps > 0 && !shares_out(tiles, warps)) warps /= 2;
  return warps;
}

/// The largest tiles of which a multiprocessor holds `ctas` CTAs.
std::optional<KernelPolicy> fitting_policy(const AttentionSpec& spec,
                                           const codegen::CudaArchitecture& architecture,
                                           int ctas) {
  KernelPolicy policy;
  policy.config = {
      .architecture = std::string(architecture.name), .stages = kStages, .ctas_per_sm = ctas};
  DeviceLimits& limits = policy.tiles;
  limits.name = architecture.name;
  // Tensor cores do not multiply float32: its rows go one by one.
  limits.max_query_tile = spec.dtype_kv == DType::f32 ? 1 : kMaxQueryTile;
  limits.max_kv_tile = max_kv_tile(spec);
  const std::int64_t room = (architecture.max_cta_shared_memory + kReserved) / ctas - kReserved;
  const std::int64_t smallest = planner::tile_bytes(spec, {1, 32});
  limits.tile_memory = architecture.max_cta_shared_memory / ctas - kBesideTiles;
  for (; limits.tile_memory >= smallest; limits.tile_memory -= kStep) {
    const planner::TilePolicy tiles = planner::choose_tiles(spec, limits);
    policy.config.classes = {tiles.classes.begin(), tiles.classes.begin() + tiles.count};
    policy.config.warps = most_warps(tiles);
    if (policy.config.warps > 0 && shared_bytes(spec, policy.config) <= room) return policy;
  }
  return std::nullopt;
}

}  // namespace

std::string unsupported_reason(const AttentionSpec& spec) {
  if (spec.dtype_q != spec.dtype_kv)
    return fmt::format("dtype_q is {} and dtype_kv is {}, CUDA kernels take the same for both",
                       to_string(spec.dtype_q), to_string(spec.dtype_kv));
  for (const DType dtype : {spec.dtype_q, spec.dtype_o}) {
    if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16)
      return fmt::format("a dtype is {}, CUDA kernels take float32, float16 and bfloat16",
                         to_string(dtype));
  }
  constexpr int kDimStep = 8;  // rows are copied in pieces of 16 bytes
  constexpr int kMaxDim = 512;
  for (const int dim : {spec.head_dim_qk, spec.vo()}) {
    if (dim % kDimStep != 0 || dim < 16 || dim > kMaxDim)
      return fmt::format("a head dim is {}, CUDA kernels take 16 to {} in steps of {}", dim,
                         kMaxDim, kDimStep);
  }
  return "";
}

KernelPolicy kernel_policy(const AttentionSpec& spec,
                           const codegen::CudaArchitecture& architecture) {
  if (const std::string reason = unsupported_reason(spec); !reason.empty())
    base::fail(ErrorKind::not_supported, "{}", reason);
  if (spec.dtype_kv == DType::bf16 && architecture.major < 8)
    base::fail(ErrorKind::not_supported,
               "dtype_kv is bfloat16, which the tensor cores of {} do not have: it needs sm_80",
               architecture.name);
  // Two CTAs hide each other's latencies, unless the tiles would become small for it.
  std::optional<KernelPolicy> policy = fitting_policy(spec, architecture, 2);
  if (!policy || small_tiles(policy->config.classes))
    policy = fitting_policy(spec, architecture, 1);
  if (!policy)
    base::fail(ErrorKind::not_supported,
               "head dims {} and {} need {} bytes for the smallest tiles, and tables beside them; "
               "a CTA of {} has {}",
               spec.head_dim_qk, spec.vo(), planner::tile_bytes(spec, {1, 32}), architecture.name,
               architecture.max_cta_shared_memory);
  return *std::move(policy);
}

jit::KernelSource kernel_source(const AttentionSpec& spec,
                                const codegen::CudaArchitecture& architecture) {
  codegen::validate(spec);
  return codegen::cuda_source(spec, kernel_policy(spec, architecture).config);
}

}  // namespace trencadis::cuda
