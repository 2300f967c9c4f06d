#include "backends/cuda/kernel_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "backends/cuda/shared_memory.h"
#include "base/check.h"
#include "base/env.h"
#include "codegen/stock_components.h"
#include "codegen/validate.h"
#include "contract/plan.h"
#include "planner/tile_policy.h"

namespace trencadis::cuda {
namespace {

constexpr int kMinStages = 2;  // as planner::tile_bytes counts them
constexpr int kMaxStages = 4;
/// What tables, and rows that hooks take apart, leave to the tiles at most; where they or the
/// padding of rows take more, tiles get less in steps.
constexpr std::int64_t kBesideTiles = 10 * 1024;
constexpr std::int64_t kStep = 1024;
constexpr std::int64_t kReserved = 1024;  // by the driver, in every CTA
constexpr int kMaxWarps = 8;

/// Whose CTA is how large, and how many of them a multiprocessor holds.
struct Occupancy {
  int warps;
  int ctas;
};

int longest_row(const AttentionSpec& spec) {
  return std::max(spec.head_dim_qk, spec.vo());
}

/// A warp holds the logits and outputs of its rows in registers. Of 128 elements it holds 32 rows,
/// so that a key read from shared memory serves two matrix products; longer rows leave room for 16,
/// and the CTA gets more warps. Some of these kernels spill 24 to 32 bytes a thread around the loop
/// (tests/codegen/resources); they are faster than 64 rows without, as measured together with other
/// changes (lab/0003): 288 TFLOP/s where 64 rows gave 243.
constexpr int kMaxRowOfTwoTiles = 128;

/// Logits and outputs of a tile lie in registers: long rows of outputs leave room for fewer logits.
int max_kv_tile(const AttentionSpec& spec) {
  return longest_row(spec) <= 256 ? 64 : 32;
}

/// Functors that need few registers beside the logits that they see. What others keep costs the
/// rows theirs.
bool is_light(const Variant& variant) {
  constexpr codegen::ComponentSet kLight = codegen::kRope | codegen::kSoftCap | codegen::kAlibi;
  const auto stock = codegen::parse_stock_chain(variant.functor);
  return stock && (*stock & ~kLight) == 0;
}

int max_query_tile(const AttentionSpec& spec, int warps) {
  // Tensor cores do not multiply float32: its rows go one by one.
  if (spec.dtype_kv == DType::f32) return 1;
  const int rows = longest_row(spec);
  const bool two_tiles = rows <= 64 || (rows <= kMaxRowOfTwoTiles && is_light(spec.variant));
  return std::min(128, warps * (two_tiles ? 32 : 16));
}

bool small_tiles(const std::vector<contract::TileClass>& classes) {
  return std::any_of(classes.begin(), classes.end(),
                     [](const contract::TileClass& tile) { return tile.kv_tokens < 64; });
}

/// As many tiles in flight as the room that the largest class needs has for each.
void add_stages(const AttentionSpec& spec, codegen::CudaKernelConfig& config, std::int64_t room) {
  for (int& stages : config.stages) {
    while (stages < kMaxStages) {
      ++stages;
      if (shared_bytes(spec, config) <= room) continue;
      --stages;
      break;
    }
  }
}

/// The largest tiles of which a multiprocessor holds `ctas` CTAs.
std::optional<KernelPolicy> fitting_policy(const AttentionSpec& spec,
                                           const codegen::CudaArchitecture& architecture,
                                           Occupancy occupancy) {
  KernelPolicy policy;
  codegen::CudaKernelConfig& config = policy.config;
  config.architecture = std::string(architecture.name);
  config.warps = occupancy.warps;
  config.ctas_per_sm = occupancy.ctas;
  DeviceLimits& limits = policy.tiles;
  limits.name = architecture.name;
  // Few classes: each is a loop of its own in the kernel, and compiled.
  limits.query_tiles = 1 | 16 | 64 | 128;
  limits.max_query_tile = max_query_tile(spec, occupancy.warps);
  if (limits.max_query_tile > 1) limits.query_tiles &= ~1;
  limits.max_kv_tile = max_kv_tile(spec);
  const std::int64_t room =
      (architecture.max_cta_shared_memory + kReserved) / occupancy.ctas - kReserved;
  const std::int64_t smallest = planner::tile_bytes(spec, {limits.max_query_tile > 1 ? 16 : 1, 32});
  limits.tile_memory = architecture.max_cta_shared_memory / occupancy.ctas - kBesideTiles;
  for (; limits.tile_memory >= smallest; limits.tile_memory -= kStep) {
    const planner::TilePolicy tiles = planner::choose_tiles(spec, limits);
    config.classes = {tiles.classes.begin(), tiles.classes.begin() + tiles.count};
    config.stages.assign(config.classes.size(), kMinStages);
    if (shared_bytes(spec, config) > room) continue;
    add_stages(spec, config, room);
    return policy;
  }
  return std::nullopt;
}

/// Two CTAs hide each other's latencies, unless the tiles would become small for it.
std::optional<KernelPolicy> best_policy(const AttentionSpec& spec,
                                        const codegen::CudaArchitecture& architecture) {
  constexpr int kWarps = 4;
  if (longest_row(spec) > kMaxRowOfTwoTiles && spec.dtype_kv != DType::f32) {
    if (auto policy = fitting_policy(spec, architecture, {kMaxWarps, 1}))
      if (policy->config.classes.back().q_rows == 128) return policy;
  }
  std::optional<KernelPolicy> policy = fitting_policy(spec, architecture, {kWarps, 2});
  if (policy && !small_tiles(policy->config.classes)) return policy;
  return fitting_policy(spec, architecture, {kWarps, 1});
}

// --- the Hopper template -------------------------------------------------------------------------

/// Two warpgroups that multiply, of 64 rows each, and one that copies.
constexpr int kHopperWarps = 8;
constexpr int kHopperProducerWarps = 4;
constexpr int kHopperRows = 128;
/// Two pairs of tiles: one is multiplied while the other is on its way. Eight tiles of the smallest
/// rows are as many bytes in flight as four of 128 elements; more was not measured.
constexpr int kMinSlots = 4;
constexpr int kMaxSlots = 8;

/// Whether the template takes the spec: rows of whole slabs of 64 elements of 16 bits, and functors
/// that rewrite no tile of keys or values and ask for no look at each weight.
bool suits_hopper(const AttentionSpec& spec, const codegen::CudaArchitecture& architecture) {
  constexpr codegen::ComponentSet kTaken = codegen::kSoftCap | codegen::kAlibi | codegen::kSigmoid;
  const auto stock = codegen::parse_stock_chain(spec.variant.functor);
  return architecture.name == "sm_90a" && size_of(spec.dtype_kv) == 2 &&
         spec.head_dim_qk % 64 == 0 && spec.vo() % 64 == 0 && longest_row(spec) <= 256 && stock &&
         (*stock & ~kTaken) == 0;
}

/// As many slots as there is room for, beside as many query tiles as leave kMinSlots.
bool fill_ring(const AttentionSpec& spec, codegen::CudaKernelConfig& config, std::int64_t room) {
  for (const int buffers : {2, 1}) {
    config.query_buffers = buffers;
    for (int slots = kMaxSlots; slots >= kMinSlots; --slots) {
      config.stages.assign(config.classes.size(), slots);
      if (shared_bytes(spec, config) <= room) return true;
    }
  }
  return false;
}

std::optional<KernelPolicy> hopper_policy(const AttentionSpec& spec,
                                          const codegen::CudaArchitecture& architecture) {
  KernelPolicy policy;
  codegen::CudaKernelConfig& config = policy.config;
  config.architecture = std::string(architecture.name);
  config.warps = kHopperWarps;
  config.producer_warps = kHopperProducerWarps;
  config.ctas_per_sm = 1;
  DeviceLimits& limits = policy.tiles;
  limits.name = architecture.name;
  limits.query_tiles = 16 | kHopperRows;
  limits.max_query_tile = kHopperRows;
  for (const int tokens : {128, 64}) {
    limits.min_kv_tile = limits.max_kv_tile = tokens;
    const planner::TilePolicy tiles = planner::choose_tiles(spec, limits);
    config.classes = {tiles.classes.begin(), tiles.classes.begin() + tiles.count};
    if (fill_ring(spec, config, architecture.max_cta_shared_memory)) return policy;
  }
  return std::nullopt;
}

/// $TRENCADIS_CUDA_TEMPLATE: what of both is asked for, where a spec has the choice.
bool wants_hopper() {
  const std::string name = base::environment("TRENCADIS_CUDA_TEMPLATE");
  if (!name.empty() && name != "portable" && name != "hopper")
    base::fail(ErrorKind::invalid_argument,
               "TRENCADIS_CUDA_TEMPLATE is '{}', expected portable or hopper", name);
  return name != "portable";
}

/// The larger part of what a device's tensor cores can do is out of mma.sync's reach.
std::optional<KernelPolicy> policy_for(const AttentionSpec& spec,
                                       const codegen::CudaArchitecture& architecture) {
  if (suits_hopper(spec, architecture) && wants_hopper())
    if (auto policy = hopper_policy(spec, architecture)) return policy;
  return best_policy(spec, architecture);
}

constexpr int kDimStep = 8;  // rows are copied in pieces of 16 bytes
constexpr int kMaxDim = 512;

/// The largest that fits as both head dims.
int largest_dim(AttentionSpec spec, const codegen::CudaArchitecture& architecture) {
  for (int dim = kMaxDim; dim > 0; dim -= kDimStep) {
    spec.head_dim_qk = spec.head_dim_vo = dim;
    if (best_policy(spec, architecture)) return dim;
  }
  return 0;
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
  std::optional<KernelPolicy> policy = policy_for(spec, architecture);
  if (!policy)
    base::fail(ErrorKind::not_supported,
               "head dims {} and {} need {} bytes for the smallest tiles, and tables beside them; "
               "a CTA of {} has {}; head dims up to {} are supported there for {}",
               spec.head_dim_qk, spec.vo(), planner::tile_bytes(spec, {1, 32}), architecture.name,
               architecture.max_cta_shared_memory, largest_dim(spec, architecture),
               to_string(spec.dtype_kv));
  return *std::move(policy);
}

jit::KernelSource kernel_source(const AttentionSpec& spec,
                                const codegen::CudaArchitecture& architecture) {
  codegen::validate(spec);
  return codegen::cuda_source(spec, kernel_policy(spec, architecture).config);
}

}  // namespace trencadis::cuda
