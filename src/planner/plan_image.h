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

/// What a plan has, or has at most.
struct PlanCounts {
  std::int64_t queues = 0;
  std::int64_t row_blocks = 0;
  std::int64_t items = 0;
  std::int64_t segments = 0;
  std::int64_t merges = 0;
  std::int64_t slots = 0;
};

/// Where the sections of an image begin; one of no bytes is not there.
struct ImageLayout {
  ImageLayout(const PlanCounts& counts, std::int64_t num_empty, std::int64_t num_pages,
              std::int64_t num_positions);

  std::int64_t queues, segments, items, slots, arrivals, empty, pages, positions, bytes;
};

ImageLayout image_layout(const contract::PlanView& plan, const StepArrays& step);

/// Writes layout.bytes bytes at `out`, which is 16-byte aligned; `layout` is that of the plan and
/// the step. Equal steps are equal bytes.
void write_image(const contract::PlanView& plan, const StepArrays& step, const ImageLayout& layout,
                 std::byte* out);

/// Bytes of the largest image within the limits. Throws Error(invalid_argument) where max_pages is
/// unbounded.
std::int64_t image_bound(const PlanCounts& counts, const Limits& limits);

}  // namespace trencadis::planner
