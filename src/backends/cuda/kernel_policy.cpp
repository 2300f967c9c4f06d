#include "backends/cuda/kernel_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "codegen/validate.h"
#include "contract/plan.h"
#include "planner/tile_policy.h"

namespace trencadis::cuda {
namespace {

constexpr int kStages = 2;  // as planner::tile_bytes counts them
/// Tables of rows and tokens, and rows that hooks take apart, beside the tiles.
constexpr std::int64_t kBesideTiles = 10 * 1024;
/// Rows of the largest query tile. 128 rows by 64 tokens of 128 elements spill at four warps
/// (124 bytes a thread for sm_90a), 64 rows do not.
constexpr int kMaxQueryTile = 64;

DeviceLimits limits_for(std::int64_t tile_memory, bool float32) {
  DeviceLimits limits;
  limits.tile_memory = tile_memory;
  // Tensor cores do not multiply float32: its rows go one by one.
  limits.max_query_tile = float32 ? 1 : kMaxQueryTile;
  return limits;
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

bool small_tiles(const planner::TilePolicy& tiles) {
  return std::any_of(tiles.classes.begin(), tiles.classes.begin() + tiles.count,
                     [](const contract::TileClass& tile) { return tile.kv_tokens < 64; });
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
  const bool float32 = spec.dtype_kv == DType::f32;
  // Two CTAs hide each other's latencies, unless the tiles would become small for it.
  int ctas = 2;
  DeviceLimits limits = limits_for(architecture.max_cta_shared_memory / 2 - kBesideTiles, float32);
  limits.name = architecture.name;
  const auto choose = [&] { return planner::choose_tiles(spec, limits); };
  const std::int64_t smallest = planner::tile_bytes(spec, {1, 32});
  if (limits.tile_memory < smallest || small_tiles(choose())) {
    ctas = 1;
    limits.tile_memory = architecture.max_cta_shared_memory - kBesideTiles;
  }
  const planner::TilePolicy tiles = choose();
  int warps = 4;
  while (warps > 1 && !shares_out(tiles, warps)) warps /= 2;
  if (!shares_out(tiles, warps))
    base::fail(ErrorKind::not_supported,
               "head dims {} and {} leave no tile that the warps of a CTA of {} can share",
               spec.head_dim_qk, spec.vo(), architecture.name);
  KernelPolicy policy;
  policy.config = {.architecture = std::string(architecture.name),
                   .warps = warps,
                   .stages = kStages,
                   .ctas_per_sm = ctas,
                   .classes = {tiles.classes.begin(), tiles.classes.begin() + tiles.count}};
  policy.tiles = limits;
  return policy;
}

jit::KernelSource kernel_source(const AttentionSpec& spec,
                                const codegen::CudaArchitecture& architecture) {
  codegen::validate(spec);
  return codegen::cuda_source(spec, kernel_policy(spec, architecture).config);
}

}  // namespace trencadis::cuda
