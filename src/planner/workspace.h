// Sizes and offsets of the memory that plans and partial states need.
#pragma once

#include <trencadis/plan.h>

#include <cstdint>

#include "planner/plan_impl.h"

namespace trencadis::planner {

/// The plan at offset 0, then partial outputs, then partial LSEs. Offsets and size in bytes,
/// multiples of 256.
struct WorkspaceLayout {
  std::int64_t partial_o_offset = 0;    // float32 [slots, slot_rows, D_vo]
  std::int64_t partial_lse_offset = 0;  // float32 [slots, slot_rows]
  std::int64_t total_bytes = 0;
};

/// Whether the arrays of a step follow the plan (plan_image.h).
enum class Travels : bool { no, yes };

/// A layout that every plan within `limits` fits, a function of the limits alone: captured graphs
/// keep its offsets. workspace.cpp proves it. page_size: B_c of the plans. Throws
/// Error(invalid_argument) that names the limit where one that the bound needs is not set.
WorkspaceLayout workspace_bound(const PlannerConfig& config, const Limits& limits,
                                std::int64_t page_size, Travels travels = Travels::no);

/// The layout that this plan by itself needs.
WorkspaceLayout workspace_of(const Plan& plan, Travels travels = Travels::no);

/// True where `plan` keeps inside the sections of `layout`.
bool fits(const Plan& plan, const WorkspaceLayout& layout, Travels travels = Travels::no);

}  // namespace trencadis::planner
