// The kernels of a spec, loaded into a context and ready to be launched.
#pragma once

#include <trencadis/attention_spec.h>

#include "backends/cuda/kernel_policy.h"
#include "backends/cuda/resources.h"
#include "backends/cuda/service_kernels.h"

namespace trencadis::cuda {

class CompiledKernel {
 public:
  /// From the cache, or compiled, and with it the kernels of append_kv, merge_states and their like
  /// for the spec's dtypes: none is compiled in front of a request. Throws as
  /// jit::load_device_kernel; Error(device); Error(not_supported) where the kernel wants more
  /// shared memory than the device has.
  CompiledKernel(const AttentionSpec& spec, const KernelPolicy& policy, ContextPointer context);

  const ContextPointer& context() const noexcept { return context_; }
  const Kernel& attention() const noexcept { return attention_; }
  unsigned threads() const noexcept { return threads_; }            // of a CTA
  unsigned shared_bytes() const noexcept { return shared_bytes_; }  // dynamic, of attention()
  /// Whether a launch may begin while the one before it ends: code for sm_90 and later.
  /// Whether it counts distances between rows in 32 bits of their common unit.
  bool counts_in_units() const noexcept { return counts_in_units_; }
  bool overlaps() const noexcept { return overlaps_; }

 private:
  ContextPointer context_;
  DeviceModule module_;
  PreparedServices services_;
  Kernel attention_;
  unsigned threads_;
  unsigned shared_bytes_;
  bool counts_in_units_;
  bool overlaps_;
};

}  // namespace trencadis::cuda
