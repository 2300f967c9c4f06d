// What makes an image right: it says what the plan and the arrays of the step say, looked up here
// by following plan.h's references.
#pragma once

#include <trencadis/plan.h>

#include <cstddef>
#include <span>
#include <string>

namespace trencadis::testing {

/// "" or the first law that `image`, of `plan`, breaks:
///   - queues with work are there in the plan's order, each with its first item;
///   - items, slots and empty row blocks have the coordinates and lengths of their requests;
///   - page ids and positions are the step's; arrivals, padding and unused fields are 0.
/// The arrays that `plan` was made of are still there.
std::string check_image(const Plan& plan, std::span<const std::byte> image);

}  // namespace trencadis::testing
