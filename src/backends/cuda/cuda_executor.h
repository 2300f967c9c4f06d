// Runs plans on a device. Nothing is allocated and nothing asked of the driver between the copy of
// a plan and the launches of its layers, so that a graph may capture run() and replay it after each
// submit().
#pragma once

#include <trencadis/attention.h>
#include <trencadis/device_limits.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "backends/cuda/compiled_kernel.h"
#include "backends/cuda/plan_check.h"
#include "backends/cuda/plan_ring.h"
#include "backends/cuda/resources.h"
#include "engine/backend.h"

namespace trencadis::cuda {

class CudaExecutor final : public engine::Executor {
 public:
  /// `graph_safe`: limits are set, so that workspaces and arguments stay where they are. `check`:
  /// of the debug mode, else null.
  CudaExecutor(CompiledKernel kernel, DeviceLimits limits, bool graph_safe,
               std::unique_ptr<PlanCheck> check);

  const DeviceLimits& limits() const override { return limits_; }
  bool copies_plans() const override { return true; }
  void check_stream(void* stream) const override;
  std::byte* reserve(std::int64_t bytes) override;
  void submit(const contract::PlanView& plan, const contract::AttentionParams& params,
              std::byte* workspace, void* stream) override;
  /// Waits for the device. Throws as PlanCheck::run; Error(invalid_argument) where the stream is
  /// being captured.
  void check_submitted(const contract::PlanView& plan, std::int64_t pool_tokens,
                       void* stream) override;
  /// One launch, which in a graph begins to start while the kernel before it ends where the device
  /// can. Throws
  /// Error(invalid_argument) where the stream is being captured and no limits are set;
  /// Error(device) where a submit() failed that may have spoilt the plan in force, until one
  /// succeeds.
  void run(const contract::PlanView& plan, const contract::AttentionParams& params,
           void* stream) override;

 private:
  const Driver& driver() const { return kernel_.context()->driver(); }

  CompiledKernel kernel_;
  DeviceLimits limits_;
  bool graph_safe_;
  PlanRing ring_;
  DeviceBuffer memory_;     // of the plan in force
  DeviceBuffer grown_;      // where that is too small for the plan to come
  DevicePointer plan_ = 0;  // of the plan that was submitted last
  bool plan_intact_ = true;
  std::unique_ptr<PlanCheck> check_;  // null: not in the debug mode
};

}  // namespace trencadis::cuda
