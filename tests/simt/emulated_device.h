// A device without a GPU: the fake driver (support/fake_cuda) whose launches run the kernels that
// the engine would have compiled, emulated. What the engine compiles is loaded and not executed;
// that both are the same kernels is checked as far as a configuration tells.
#pragma once

#include <gtest/gtest.h>
#include <trencadis/attention.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "contract/plan.h"
#include "support/fake_cuda/fake_cuda.h"
#include "support/problem.h"
#include "support/run.h"

namespace trencadis::testing {

/// A launch as the driver saw it.
struct Launch {
  std::string function;
  unsigned grid, block, shared_bytes;
  std::vector<std::byte> params;  // contract::AttentionParams, or CheckPlanParams
  const void* plan;
  int device;       // whose context is current; -1: it had waited
  int plan_device;  // in whose memory the plan lies; -1: in the test's
  friend bool operator==(const Launch&, const Launch&) = default;
};

/// Of the attention kernel: an sm_90a device gets the Hopper one where a spec has the choice.
enum class KernelTemplate { hopper, portable };

/// Kernels that are compiled into the test.
struct EmulatedKernel {
  KernelTemplate of;
  AttentionSpec spec;          // bounds and sinks are free: they are arguments
  int threads, query_buffers;  // as in codegen::CudaKernelConfig
  int shared_bytes;
  std::vector<contract::TileClass> classes;
  std::vector<int> stages;
  FakeCuda::Kernel* attention;
};
EmulatedKernel plain_bf16(KernelTemplate of = KernelTemplate::hopper);  // 64 dims
/// 64 dims; those of values are 40 in the portable template.
EmulatedKernel soft_capped_f16(KernelTemplate of = KernelTemplate::hopper);
EmulatedKernel plain_f32();  // 32 dims, of which every row goes alone

/// Four multiprocessors with memory so slow that work is worth splitting.
class EmulatedDevice : public ::testing::Test {
 public:
  const FakeCuda& fake() const;

  std::vector<Launch> launches;  // since use()

 protected:
  static void SetUpTestSuite();
  void SetUp() override;
  void TearDown() override;

  /// Launches run this kernel from now on, and that of the debug mode. The environment asks for its
  /// template where that is not what the device gets without.
  void use(const EmulatedKernel& kernel);

  void* stream() { return &stream_; }

 private:
  char stream_ = 0;  // its address is the handle
};

/// The view, said to lie on the device: host memory is device memory here.
TensorView on_device(const TensorView& view, int index = 0);

/// The problem's config for this backend.
AttentionConfig cuda_config(const Problem& problem);

/// run() of the plan in force, with tensors of its own, on the device that the config names.
Output run_on_device(Attention& attention, const Problem& problem, void* stream = nullptr);

/// Memory of the caller, of the device, with guards on both sides.
class CallersMemory {
 public:
  explicit CallersMemory(std::int64_t bytes, std::uint8_t value = 0xff);
  TensorView view(std::int64_t less = 0);
  bool guards_are_intact() const;

 private:
  static constexpr std::int64_t kGuard = 256;
  std::vector<std::uint8_t> storage_;
  std::uint8_t* begin_;
  std::int64_t bytes_;
};

/// Tensors that stay where they are while steps come and go, as a graph needs them.
class FixedTensors {
 public:
  /// For problems like this one of at most so many query tokens and pages.
  FixedTensors(const Problem& like, std::int64_t tokens, std::int64_t pages);
  /// For this one alone.
  explicit FixedTensors(const Problem& problem);

  /// Brings in the problem's queries and pool; everything else is poisoned.
  void load(const Problem& problem);
  RunArgs args(const Problem& problem, void* stream);
  /// Fails the test where rows that are not the problem's were written.
  Output output(const Problem& problem) const;

 private:
  std::int64_t tokens_;
  HostTensor q_, pool_, out_, lse_;
};

}  // namespace trencadis::testing
