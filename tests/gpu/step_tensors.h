// What a serving loop holds still: tensors at fixed addresses for steps that come and go, a
// workspace of its own, a stream with work in front.
#pragma once

#include <trencadis/attention.h>
#include <trencadis/device.h>

#include <cstdint>

#include "gpu/device_tensor.h"
#include "support/host_tensor.h"
#include "support/problem.h"
#include "support/run.h"

namespace trencadis::testing {

/// Tensors that stay where they are on the device, as a graph needs them. Pools are interleaved or
/// layered.
class StepTensors {
 public:
  /// For problems like this one of at most so many query tokens and pages.
  StepTensors(const Problem& like, std::int64_t tokens, std::int64_t pages,
              Device device = device_under_test());
  /// For this one alone, loaded.
  explicit StepTensors(const Problem& problem, Device device = device_under_test());

  /// Brings in the problem's queries and pool; everything else is poisoned. The device is idle.
  void load(const Problem& problem);
  RunArgs args(const Problem& problem, void* stream) const;
  /// Fails the test where rows that are not the problem's were written. The device is idle.
  Output output(const Problem& problem) const;

 private:
  std::int64_t tokens_;
  HostTensor host_q_, host_pool_, host_out_, host_lse_;
  DeviceTensor q_, pool_, out_, lse_;
};

/// A workspace of the caller's, full of 0xff, with guards on both sides.
class GuardedWorkspace {
 public:
  explicit GuardedWorkspace(std::int64_t bytes);
  TensorView view() const;
  bool guards_are_intact() const;

 private:
  std::int64_t bytes_;
  DeviceMemory memory_;
};

/// Work of about so many milliseconds in front of what a stream is given next. On the CPU, where a
/// stream is never behind, there is nothing to do.
class Blocker {
 public:
  /// Prefills of the spec's kernel.
  explicit Blocker(const AttentionSpec& spec);
  void block(DeviceStream& stream, double milliseconds);

 private:
  void run(DeviceStream& stream);

  Attention attention_;
  DeviceMemory q_, k_, v_, out_;
  double each_ms_ = 0;
};

}  // namespace trencadis::testing
