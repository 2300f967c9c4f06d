// How a plan may be kept from splitting as it likes.
#pragma once

#include <trencadis/plan.h>

namespace trencadis::testing {

inline PlanOptions unsplit() {
  PlanOptions options;
  options.split = SplitMode::none;
  return options;
}

inline PlanOptions invariant() {
  PlanOptions options;
  options.batch_invariant = true;
  return options;
}

}  // namespace trencadis::testing
