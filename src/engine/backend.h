// What the engine asks of a backend.
#pragma once

#include <trencadis/attention.h>
#include <trencadis/runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "contract/params.h"
#include "contract/plan.h"
#include "contract/units.h"

namespace trencadis::engine {

/// Kernels of one spec on one device, ready to run plans.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual const DeviceLimits& limits() const = 0;

  /// True where plans travel: a workspace then begins with room for a plan and the arrays of its
  /// step, which submit() fills.
  virtual bool copies_plans() const = 0;

  /// Before anything of a plan() is changed. Throws Error(invalid_argument) where no plan can be
  /// submitted on `stream`, since it is being captured; Error(device).
  virtual void check_stream(void* stream) const = 0;

  /// Memory that the kernels reach, 64-byte aligned, of at least `bytes` bytes: the workspace where
  /// the caller gave none. Where copies_plans(), what an earlier call returned stays until a plan
  /// is submitted in the new, so that an error leaves the plan in force; elsewhere it is gone.
  /// Throws Error(out_of_capacity | device), std::bad_alloc.
  virtual std::byte* reserve(std::int64_t bytes) = 0;

  /// Makes `plan` the one that run() executes on `stream`. The arrays of `params` lie in host
  /// memory; `workspace` has a place for them where copies_plans(). Once a step, after
  /// check_stream(). Throws Error(device).
  virtual void submit(const contract::PlanView& plan, const contract::AttentionParams& params,
                      std::byte* workspace, void* stream) = 0;

  /// In the debug mode before each run(): looks at the plan that was submitted last where it lies,
  /// against `pool_tokens` tokens that k and v both hold, and waits for that. Where plans do not
  /// travel there is nothing to look at. Throws Error(invalid_argument | internal) that names the
  /// request, Error(device).
  virtual void check_submitted(const contract::PlanView& /*plan*/, std::int64_t /*pool_tokens*/,
                               void* /*stream*/) {}

  /// Executes the plan that was submitted last. Tensors of `params` are valid on the device;
  /// partial_o and partial_lse hold plan.header->num_slots slots. Once a layer.
  virtual void run(const contract::PlanView& plan, const contract::AttentionParams& params,
                   void* stream) = 0;
};

/// An executor whose kernels read the host's memory.
class HostExecutor : public Executor {
 public:
  bool copies_plans() const final { return false; }
  void check_stream(void* /*stream*/) const final {}
  std::byte* reserve(std::int64_t bytes) final {
    if (static_cast<std::int64_t>(memory_.size() * sizeof(Line)) < bytes)
      memory_.resize(static_cast<std::size_t>(contract::ceil_div(bytes, kLine)));
    return reinterpret_cast<std::byte*>(memory_.data());
  }
  void submit(const contract::PlanView& /*plan*/, const contract::AttentionParams& /*params*/,
              std::byte* /*workspace*/, void* /*stream*/) final {}

 private:
  static constexpr std::int64_t kLine = 64;
  struct alignas(kLine) Line {
    std::byte bytes[kLine];
  };
  std::vector<Line> memory_;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual BackendInfo info() const = 0;
  /// "" or why not, in words: required, supported, missing.
  virtual std::string can_implement(const AttentionSpec& spec,
                                    const AttentionConfig& config) const = 0;
  /// The device that `config` names, as the planner sees it. The executor's limits are the same.
  /// Compiles nothing.
  virtual DeviceLimits device_limits(const AttentionSpec& spec,
                                     const AttentionConfig& config) const = 0;
  virtual std::unique_ptr<Executor> prepare(const AttentionSpec& spec,
                                            const AttentionConfig& config) = 0;
};

}  // namespace trencadis::engine
