// Which kernel a spec gets on an architecture: the same whether it is compiled ahead of use or when
// a spec is prepared, so that one finds what the other put into the cache.
#pragma once

#include <trencadis/attention_spec.h>
#include <trencadis/device_limits.h>

#include <string>

#include "codegen/cuda_architecture.h"
#include "codegen/cuda_source.h"
#include "jit/kernel_source.h"

namespace trencadis::cuda {

struct KernelPolicy {
  codegen::CudaKernelConfig config;
  /// What tiles depend on is filled in: the planner chooses the kernel's classes with them. Name,
  /// CTAs and rates are the device's, and left as they are in DeviceLimits.
  DeviceLimits tiles;
};

/// Throws Error(not_supported) where no tile fits the architecture, or the kernels do not take the
/// spec.
KernelPolicy kernel_policy(const AttentionSpec& spec,
                           const codegen::CudaArchitecture& architecture);

/// "" or why the kernels of this room do not take the spec, on any architecture.
std::string unsupported_reason(const AttentionSpec& spec);

/// The kernel's text. Throws as kernel_policy(), and as codegen::validate().
jit::KernelSource kernel_source(const AttentionSpec& spec,
                                const codegen::CudaArchitecture& architecture);

}  // namespace trencadis::cuda
