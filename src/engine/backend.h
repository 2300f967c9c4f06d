// What the engine asks of a backend.
#pragma once

#include <trencadis/attention.h>
#include <trencadis/runtime.h>

#include <memory>
#include <string>

#include "contract/params.h"
#include "contract/plan.h"

namespace trencadis::engine {

/// Kernels of one spec on one device, ready to run plans.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual const DeviceLimits& limits() const = 0;
  /// Runs `plan`. All pointers of `params` are valid on the device; partial_o and partial_lse hold
  /// plan.header->num_slots slots.
  virtual void run(const contract::PlanView& plan, const contract::AttentionParams& params,
                   void* stream) = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual BackendInfo info() const = 0;
  /// "" or why not, in words: required, supported, missing.
  virtual std::string can_implement(const AttentionSpec& spec,
                                    const AttentionConfig& config) const = 0;
  /// The device that `config` names, as the planner sees it. The executor's limits are the same.
  virtual DeviceLimits device_limits(const AttentionConfig& config) const = 0;
  virtual std::unique_ptr<Executor> prepare(const AttentionSpec& spec,
                                            const AttentionConfig& config) = 0;
};

}  // namespace trencadis::engine
