// A plan as it travels to a device: its sections and the arrays of its step, one block that needs
// nothing but itself, so that one copy brings a step and kernel arguments never change.
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

  std::int32_t batch;
  const std::int32_t* qo_indptr;  // [batch + 1]
  const std::int32_t* kv_lens;    // [batch]
  contract::BsrParams kv;
};

std::int64_t image_bytes(const contract::PlanView& plan, const StepArrays& step);

/// Writes image_bytes() bytes at `out`, which is 16-byte aligned.
void write_image(const contract::PlanView& plan, const StepArrays& step, std::byte* out);

/// What the arrays of any step within the limits need at most, beyond the plan itself. Throws
/// Error(invalid_argument) where max_batch or max_pages is unbounded.
std::int64_t arrays_bound(const Limits& limits);

/// Throws Error(out_of_capacity) where a view has more block rows than arrays_bound() counts.
void check_rows(const Problem& problem, const Limits& limits);

}  // namespace trencadis::planner
