// Checks a plan's image before it is run: the debug mode. Generated code declares the __global__
// function.
#pragma once

#include "contract/check_plan.h"
#include "cuda/collective/check_plan.h"

namespace trencadis::entry {

TRENCADIS_DEVICE void check_plan(const contract::CheckPlanParams& params) {
  collective::check_plan(params);
}

}  // namespace trencadis::entry
