#include "backends/cuda/shared_memory.h"

#include <algorithm>

#include "contract/units.h"

namespace trencadis::cuda {
namespace {

constexpr std::int64_t kFloat = 4;
constexpr std::int64_t kTokenEntry = 16;
constexpr std::int64_t kRowEntry = 8;
constexpr std::int64_t kHead = 192;

std::int64_t round_up(std::int64_t value, std::int64_t step) {
  return contract::ceil_div(value, step) * step;
}

/// Extents that all layouts of a kernel share.
struct Extents {
  Extents(const AttentionSpec& spec, const codegen::CudaKernelConfig& config)
      : dim_qk(round_up(spec.head_dim_qk, 16)),
        dim_vo(round_up(spec.vo(), 16)),
        element(static_cast<std::int64_t>(size_of(spec.dtype_kv))),
        warps(config.warps) {}

  std::int64_t chunks(std::int64_t dim) const { return dim * element / 16; }
  /// tile/shared_tile.h: rows of whole bank lines, or an odd number of chunks apart.
  std::int64_t row_bytes(std::int64_t dim) const {
    const std::int64_t count = chunks(dim);
    return (count % 8 == 0 ? count : count | 1) * 16;
  }
  std::int64_t ring_bytes(std::int64_t tokens, std::int64_t stages) const {
    return stages *
           (round_up(tokens * row_bytes(dim_qk), 128) + round_up(tokens * row_bytes(dim_vo), 128));
  }
  /// Where tokens lie and which they are, of the tiles in flight and the one to come.
  std::int64_t token_bytes(std::int64_t tokens, std::int64_t stages) const {
    return (stages + 1) * tokens * (kTokenEntry + kFloat);
  }
  std::int64_t scratch_bytes() const { return warps * std::max(dim_qk, dim_vo) * kFloat; }

  std::int64_t dim_qk, dim_vo, element, warps;
};

std::int64_t tensor_bytes(const Extents& x, const contract::TileClass& tile, int stages) {
  const std::int64_t rows = tile.q_rows, tokens = tile.kv_tokens;
  std::int64_t at = round_up(kHead + rows * kRowEntry, 128) + x.token_bytes(tokens, stages);
  at = round_up(at + tokens * kFloat, 16);  // keys that a row sees
  at = round_up(at + x.scratch_bytes(), 128);
  at = round_up(at + rows * x.row_bytes(x.dim_qk), 128);
  const std::int64_t kv_warps = std::min(x.warps / std::min(x.warps, rows / 16), tokens / 16);
  const std::int64_t state_rows = kv_warps * rows;
  const std::int64_t ring_end = at + x.ring_bytes(tokens, stages);
  const bool own_rows = kv_warps == 1 && std::min(x.warps, rows / 16) == x.warps;
  if (own_rows) return ring_end;
  const auto output_end = [&](std::int64_t columns) {
    return round_up(
        round_up(at + 2 * state_rows * kFloat, 128) + state_rows * (columns + 8) * kFloat, 128);
  };
  return output_end(x.dim_vo) <= ring_end
             ? ring_end
             : std::max(ring_end, output_end(std::min<std::int64_t>(x.dim_vo, 64)));
}

std::int64_t vector_bytes(const Extents& x, std::int64_t tokens, int stages) {
  const std::int64_t threads = x.warps * 32;
  std::int64_t at = kHead + x.token_bytes(tokens, stages);
  at += 2 * x.dim_qk * kFloat + threads * kFloat;  // the query, logits
  at = round_up(at + tokens * kFloat, 16);         // weights
  at = round_up(at + x.scratch_bytes(), 128);
  const std::int64_t shares =
      std::max<std::int64_t>(1, std::min(threads / x.chunks(x.dim_vo), tokens));
  return at + std::max(x.ring_bytes(tokens, stages), shares * x.dim_vo * kFloat);
}

/// kernels/cuda/collective/ring_layout.h and small_loop.h. Rows are whole slabs of 64 elements.
std::int64_t ring_bytes(const AttentionSpec& spec, const codegen::CudaKernelConfig& config) {
  constexpr std::int64_t kSlab = 64, kElement = 2;
  constexpr std::int64_t kPageTable = 32, kStrides = 48, kCursors = 4 * 32, kWork = 80,
                         kBarrier = 8;
  constexpr std::int64_t kProducerRows = 128, kStatesOfRows = 16;
  const std::int64_t dim_qk = round_up(spec.head_dim_qk, kSlab),
                     dim_vo = round_up(spec.vo(), kSlab);
  const std::int64_t buffers = config.query_buffers, slots = config.stages.front();
  const std::int64_t tokens = config.classes.front().kv_tokens;
  std::int64_t rows = 0;
  for (const contract::TileClass& tile : config.classes)
    rows = std::max<std::int64_t>(rows, tile.q_rows);
  std::int64_t at = buffers * rows * dim_qk * kElement;
  at += slots * tokens * std::max(dim_qk, dim_vo) * kElement;
  at += kPageTable + kStrides + kCursors + buffers * kWork;
  at = round_up(at + 2 * (slots + buffers) * kBarrier, 128);
  at += buffers * rows * kRowEntry;
  at += 2 * 2 * kProducerRows * kFloat;  // where rows lie
  at += slots * tokens * kFloat;         // and which they are
  at += config.warps * dim_qk * kFloat;  // rows that hooks take apart
  at = round_up(at, 128);
  const std::int64_t state_rows =
      kStatesOfRows * tokens / std::max<std::int64_t>(16, tokens / config.warps);
  const std::int64_t slice = std::min<std::int64_t>(dim_vo, 32);
  return round_up(at + 2 * state_rows * kFloat, 128) + state_rows * (slice + 8) * kFloat;
}

}  // namespace

std::int64_t shared_bytes(const AttentionSpec& spec, const codegen::CudaKernelConfig& config) {
  if (config.producer_warps > 0) return ring_bytes(spec, config);
  const Extents extents(spec, config);
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < config.classes.size(); ++i) {
    const contract::TileClass& tile = config.classes[i];
    bytes =
        std::max(bytes, tile.q_rows == 1 ? vector_bytes(extents, tile.kv_tokens, config.stages[i])
                                         : tensor_bytes(extents, tile, config.stages[i]));
  }
  return bytes;
}

}  // namespace trencadis::cuda
