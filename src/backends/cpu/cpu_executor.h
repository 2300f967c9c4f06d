// Runs a plan on a pool of threads.
//
// The plan says what the pieces of work are, where their results go and in which order partial
// states merge; threads take pieces as they become free (work_units.h). The bits of a result
// therefore do not depend on timing.
#pragma once

#include <trencadis/device_limits.h>

#include <atomic>
#include <memory>
#include <vector>

#include "backends/cpu/thread_pool.h"
#include "backends/cpu/variant_registry.h"
#include "backends/cpu/work_units.h"
#include "cpu/launch.h"
#include "cpu/microkernels.h"
#include "cpu/scratch.h"
#include "engine/backend.h"

namespace trencadis::cpu {

class CpuExecutor final : public engine::HostExecutor {
 public:
  /// num_threads >= 1. `simd` outlives the executor.
  CpuExecutor(const AttentionSpec& spec, ResolvedVariant variant, const Microkernels& simd,
              int num_threads);

  const DeviceLimits& limits() const override { return limits_; }

  /// Allocates nothing but where a plan is larger than every one before it. Throws Error(internal)
  /// on a plan whose tiles are larger than limits() allow.
  void run(const contract::PlanView& plan, const contract::AttentionParams& params,
           void* stream) override;

 private:
  void run_unit(const Launch& launch, const contract::PlanView& plan, const WorkUnit& unit,
                Scratch& scratch);

  ResolvedVariant variant_;
  const Microkernels& simd_;
  DeviceLimits limits_;
  ThreadPool pool_;
  WorkUnits units_;
  std::vector<std::unique_ptr<Scratch>> scratch_;  // one a thread
};

/// What the planner should know of `num_threads` threads of this machine.
DeviceLimits cpu_limits(int num_threads, const Microkernels& simd);

}  // namespace trencadis::cpu
