#include "engine/validate.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "base/check.h"
#include "codegen/validate.h"
#include "contract/units.h"
#include "planner/planner.h"

namespace trencadis::engine {
namespace {

using base::check;
using base::fail;

void validate_dtypes(const AttentionSpec& spec) {
  const struct {
    const char* name;
    DType dtype;
  } roles[] = {{"dtype_q", spec.dtype_q}, {"dtype_kv", spec.dtype_kv}, {"dtype_o", spec.dtype_o}};
  for (const auto& [name, dtype] : roles) {
    const bool ok = dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
    if (!ok)
      fail(ErrorKind::type_mismatch, "{} is {}, expected float32, float16 or bfloat16", name,
           to_string(dtype));
  }
}

void validate_limits(const Limits& limits) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();  // plans count in int32
  for (const auto& [name, value] :
       {std::pair{"max_batch", limits.max_batch}, std::pair{"max_qo_tokens", limits.max_qo_tokens},
        std::pair{"max_pages", limits.max_pages},
        std::pair{"max_kv_tokens", limits.max_kv_tokens}}) {
    check(value >= 0 && value <= kMost, "limits.{} is {}, expected 0 (no bound) to {}", name, value,
          kMost);
  }
}

void validate_workspace(const TensorView& workspace) {
  if (!workspace.defined()) return;
  if (workspace.dtype() != DType::u8)
    fail(ErrorKind::type_mismatch, "workspace is {}, expected uint8[bytes]", workspace);
  check(workspace.rank() == 1 && workspace.stride(0) == 1,
        "workspace is {}, expected a contiguous uint8[bytes]", workspace);
  check(workspace.data() != nullptr || workspace.size(0) == 0,
        "workspace is {} with a null data pointer", workspace);
  constexpr std::uintptr_t kAlignment = 64;
  check(reinterpret_cast<std::uintptr_t>(workspace.data()) % kAlignment == 0,
        "workspace begins at an address that is not a multiple of {} bytes", kAlignment);
}

struct IdRange {
  bool any_negative = false;
  std::int32_t largest = -1;
};

/// Sixteen ids at a time, four side by side, since each maximum waits for the one before it: a
/// quarter of the time that a compiler's own loop takes, and a table is most of what plan() reads.
IdRange id_range(const std::int32_t* ids, std::int64_t count) {
  using Lanes = std::int32_t __attribute__((vector_size(16)));
  constexpr int kLanes = 4, kSideBySide = 4;
  Lanes largest[kSideBySide] = {~Lanes{}, ~Lanes{}, ~Lanes{}, ~Lanes{}};
  Lanes all{};  // whose signs say whether one is negative
  std::int64_t i = 0;
  for (; i + kLanes * kSideBySide <= count; i += kLanes * kSideBySide) {
    for (int k = 0; k < kSideBySide; ++k) {
      Lanes lanes;
      std::memcpy(&lanes, ids + i + kLanes * k, sizeof lanes);
      all |= lanes;
      largest[k] = lanes > largest[k] ? lanes : largest[k];
    }
  }
  std::int32_t any = 0;
  IdRange range;
  for (int lane = 0; lane < kLanes; ++lane) {
    any |= all[lane];
    for (const Lanes& lanes : largest) range.largest = std::max(range.largest, lanes[lane]);
  }
  for (; i < count; ++i) {
    any |= ids[i];
    range.largest = std::max(range.largest, ids[i]);
  }
  range.any_negative = any < 0;
  return range;
}

[[noreturn]] void explain_negative_id(const contract::BsrParams& kv, std::int64_t begin,
                                      std::int64_t count, std::int64_t row) {
  std::int64_t i = begin;
  while (i < begin + count && kv.indices[i] >= 0) ++i;
  fail(ErrorKind::invalid_argument,
       "kv_indices[{}] is {} (block row {}), expected a page id of 0 or more", i, kv.indices[i],
       row);
}

/// The facts of a table whose rows use all of their blocks, in one pass over the ids. False where
/// a row has more blocks, an id is negative, or the largest is that of a block which is filled in
/// part: what they come to, only a look at each row can tell.
bool read_full_table(const contract::BsrParams& kv, PlanFacts& facts) {
  const IdRange ids = id_range(kv.indices, kv.indptr[kv.rows]);
  bool in_doubt = ids.any_negative;
  for (std::int32_t row = 0; row < kv.rows; ++row) {
    const std::int32_t begin = kv.indptr[row], end = kv.indptr[row + 1];
    const std::int64_t spare = (end - begin) * kv.block_cols - kv.kv_lens[row];  // tokens
    const std::int32_t last = kv.indices[std::max(end - 1, 0)];
    in_doubt |= (spare >= kv.block_cols) | ((spare > 0) & (last == ids.largest));
  }
  if (in_doubt) return false;
  facts.blocks_used = std::int64_t{ids.largest} + 1;
  facts.tokens_used = facts.blocks_used * kv.block_cols;
  return true;
}

}  // namespace

void validate(const AttentionSpec& spec, const AttentionConfig& config) {
  planner::check_heads(config.heads, "num_qo_heads", "num_kv_heads");
  check(spec.head_dim_qk > 0, "head_dim_qk is {}, expected 1 or more", spec.head_dim_qk);
  check(spec.head_dim_vo >= 0, "head_dim_vo is {}, expected 0 (= head_dim_qk) or more",
        spec.head_dim_vo);
  check(config.device_index >= 0, "device_index is {}, expected 0 or more", config.device_index);
  check(config.page_size > 0, "page_size is {}, expected 1 or more", config.page_size);
  check(config.num_threads >= 0, "num_threads is {}, expected 0 (all) or more", config.num_threads);
  check(std::isfinite(config.sm_scale),
        "sm_scale is {}, expected a finite number (0: 1/sqrt(head_dim_qk))", config.sm_scale);
  check(config.plan.fixed_split_tokens >= 0, "fixed_split_tokens is {}, expected 0 or more",
        config.plan.fixed_split_tokens);
  validate_dtypes(spec);
  codegen::validate(spec);  // the variant, and what it asks of the rest
  validate_limits(config.limits);
  validate_workspace(config.workspace);
}

PlanFacts read_block_table(const planner::Problem& problem, bool contiguous) {
  const contract::BsrParams& kv = problem.kv();
  PlanFacts facts;
  facts.nnz_q = problem.nnz_q();
  facts.block_cols = kv.block_cols;
  if (!contiguous && read_full_table(kv, facts)) return facts;
  for (std::int64_t row = 0; row < problem.num_rows(); ++row) {
    const std::int32_t tokens = kv.kv_lens[row];
    if (tokens == 0) continue;
    const std::int64_t used = kv.page.divide(tokens - 1) + 1;
    const std::int64_t begin = kv.indptr[row];
    if (contiguous) {
      facts.blocks_used = std::max(facts.blocks_used, begin + used);
      facts.tokens_used = std::max(facts.tokens_used, begin * kv.block_cols + tokens);
      continue;
    }
    // Only the last block of a row may be partly filled, and so reach less far into the pool.
    const IdRange full = id_range(kv.indices + begin, used - 1);
    const std::int64_t last = kv.indices[begin + used - 1];
    if (full.any_negative || last < 0) explain_negative_id(kv, begin, used, row);
    const std::int64_t full_blocks = std::int64_t{full.largest} + 1;
    facts.blocks_used = std::max({facts.blocks_used, full_blocks, last + 1});
    const std::int64_t last_fill = tokens - (used - 1) * kv.block_cols;
    facts.tokens_used = std::max(
        {facts.tokens_used, full_blocks * kv.block_cols, last * kv.block_cols + last_fill});
  }
  return facts;
}

void check_block_ids(const planner::Problem& problem, std::int64_t pool_tokens) {
  const contract::BsrParams& kv = problem.kv();
  for (std::int32_t row = 0; row < problem.num_rows(); ++row) {
    const std::int64_t used = contract::ceil_div<std::int64_t>(kv.kv_lens[row], kv.block_cols);
    for (std::int64_t j = 0; j < used; ++j) {
      const std::int64_t entry = kv.indptr[row] + j;
      const std::int64_t block = kv.indices == nullptr ? entry : kv.indices[entry];
      const std::int64_t tokens = std::min(kv.kv_lens[row] - j * kv.block_cols, kv.block_cols);
      if (block >= 0 && block * kv.block_cols + tokens <= pool_tokens) continue;
      const std::int32_t request =
          problem.row_requests() == nullptr ? row : problem.row_requests()[row];
      fail(ErrorKind::invalid_argument,
           "kv_indices[{}] is {} (request {}, page {} of its row), expected 0 to {}: k and v hold "
           "{} "
           "tokens in pages of {}; nothing was run",
           entry, block, request, j,
           pool_tokens < tokens ? -1 : (pool_tokens - tokens) / kv.block_cols, pool_tokens,
           kv.block_cols);
    }
  }
}

}  // namespace trencadis::engine
