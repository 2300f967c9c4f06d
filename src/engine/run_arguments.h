// Checks the tensors of one run() against the spec, the config and the plan in force, and fills the
// kernel parameters. Hot: no allocation and no text unless a check fails.
#pragma once

#include <trencadis/attention.h>

#include "contract/params.h"

namespace trencadis::engine {

/// What the plan in force asks of the tensors.
struct PlanFacts {
  std::int64_t nnz_q = 0;        // qo_indptr[B]
  std::int64_t block_cols = 1;   // B_c
  std::int64_t blocks_used = 0;  // 1 + the largest block id that the plan reads
  std::int64_t tokens_used = 0;  // tokens of the pool that it reads, counted from its start
};

/// Fills the parts of `params` that come from the call. Throws Error(invalid_argument |
/// type_mismatch | not_supported) that names the tensor, what came and what was expected.
void bind_arguments(const AttentionSpec& spec, const AttentionConfig& config, Device device,
                    const PlanFacts& facts, const RunArgs& args, contract::AttentionParams& params);

/// Tokens that k and v both have room for, in tensors that bind_arguments has taken.
std::int64_t pool_tokens(const AttentionConfig& config, const RunArgs& args);

}  // namespace trencadis::engine
