// A plan as it travels to a device (contract/plan_image.h).
#pragma once

#include <trencadis/attention.h>

#include <cstddef>
#include <cstdint>

#include "contract/params.h"
#include "contract/plan.h"
#include "planner/problem.h"

namespace trencadis::planner {

/// The arrays of a step, where its planner read them.
struct StepArrays {
  explicit StepArrays(const Problem& problem);
  explicit StepArrays(const contract::AttentionParams& params);

  const std::int32_t* qo_indptr;  // [batch + 1]
  const std::int32_t* kv_lens;    // [batch]
  contract::BsrParams kv;
};

std::int64_t image_bytes(const contract::PlanView& plan, const StepArrays& step);

/// Writes image_bytes() bytes at `out`, which is 16-byte aligned. Equal steps are equal bytes.
void write_image(const contract::PlanView& plan, const StepArrays& step, std::byte* out);

/// What a plan has at most.
struct PlanCounts {
  std::int64_t queues = 0;
  std::int64_t row_blocks = 0;
  std::int64_t items = 0;
  std::int64_t segments = 0;
  std::int64_t merges = 0;
  std::int64_t slots = 0;
};

/// Bytes of the largest image within the limits. Throws Error(invalid_argument) where max_pages is
/// unbounded.
std::int64_t image_bound(const PlanCounts& counts, const Limits& limits);

}  // namespace trencadis::planner
