// The debug mode (AttentionConfig::debug_checks): before each run a kernel looks at the plan where
// it lies, and what it finds is told with the request that it belongs to (docs/decisions/0013).
#pragma once

#include <trencadis/attention_spec.h>

#include <cstdint>
#include <string_view>

#include "backends/cuda/resources.h"
#include "contract/check_plan.h"
#include "contract/params.h"
#include "contract/plan.h"
#include "planner/plan_image.h"

namespace trencadis::cuda {

class PlanCheck {
 public:
  /// From the cache, or compiled. Throws as jit::load_device_kernel; Error(device |
  /// out_of_capacity).
  PlanCheck(ContextPointer context, const AttentionSpec& spec, std::string_view architecture);

  /// The plan that run() looks at from now on: its image lies at `device`, begins with `header` and
  /// was written from the rest.
  void submitted(DevicePointer device, const contract::PlanImage& header,
                 const contract::PlanView& plan, const planner::StepArrays& step,
                 const contract::AttentionParams& params);

  /// Waits for what was queued, so that its faults are not taken for others, and for the check.
  /// `pool_tokens`: that k and v both hold. The context is current, the stream not being captured.
  /// Throws Error(invalid_argument) for a page id beyond the pool, Error(internal) for a plan that
  /// is not as plan() wrote it, with request, value and what was expected; Error(device).
  void run(const contract::PlanView& plan, std::int64_t pool_tokens, Stream stream);

 private:
  [[noreturn]] void fail(const contract::PlanView& plan, const contract::PlanFault& fault) const;

  ContextPointer context_;
  DeviceModule module_;
  Kernel kernel_;
  DeviceBuffer faults_;
  PinnedBuffer fetched_;
  contract::CheckPlanParams params_{};
};

}  // namespace trencadis::cuda
