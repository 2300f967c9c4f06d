// What can be refused before anything is planned or allocated.
#pragma once

#include <trencadis/attention.h>

#include "engine/run_arguments.h"
#include "planner/problem.h"

namespace trencadis::engine {

/// Throws Error(invalid_argument | type_mismatch) that names the field of spec or config.
void validate(const AttentionSpec& spec, const AttentionConfig& config);

/// Reads the ids of the blocks that the problem uses. Entries behind a row's last token are not
/// looked at. `contiguous`: the view has no indices. Throws Error(invalid_argument) for a negative
/// id.
PlanFacts read_block_table(const planner::Problem& problem, bool contiguous);

/// The debug mode's, of arrays that stay on the host: every block that the problem uses is in a
/// pool of `pool_tokens` tokens. Throws Error(invalid_argument) that names request and block.
void check_block_ids(const planner::Problem& problem, std::int64_t pool_tokens);

}  // namespace trencadis::engine
