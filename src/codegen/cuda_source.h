// The text of the CUDA attention kernel of a spec. Deterministic: equal arguments give equal bytes.
#pragma once

#include <trencadis/attention_spec.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/cuda_architecture.h"
#include "contract/plan.h"
#include "jit/kernel_source.h"

namespace trencadis::codegen {

/// Version of what the kernels take and of how they are launched.
inline constexpr std::uint32_t kCudaKernelAbi = 3;

/// The kernel of a compiled spec: (const AttentionParams, const PlanImage*).
inline constexpr const char* kAttentionSymbol = "trencadis_attention";
/// An int: the dynamic shared memory of the attention kernel, in bytes.
inline constexpr const char* kSharedBytesSymbol = "trencadis_shared_bytes";

/// The tag by which kernels know an element type. Throws Error(not_supported), naming `argument`,
/// for one that they don't.
std::string_view cuda_element_tag(DType dtype, std::string_view argument);

/// What is decided about a kernel besides the spec.
struct CudaKernelConfig {
  std::string architecture;  // for the prebuild command; the text does not depend on it
  int warps = 4;             // of a CTA that multiply
  /// More warps that only copy, in the Hopper template, whose CTAs have roles
  /// (kernels/cuda/collective/ring_queues.h); 0 in the portable one, where every warp does all.
  int producer_warps = 0;
  int query_buffers = 1;  // of the Hopper template: query tiles in shared memory, 1 or 2
  int ctas_per_sm = 1;    // that registers must suffice for
  std::vector<contract::TileClass> classes;  // in the order of the plan's tile classes
  /// Of each class. Portable template: K and V tiles in shared memory, at least 2. Hopper template:
  /// tiles of K or of V in the ring that all classes share, at least 3.
  std::vector<int> stages;

  int threads() const { return (warps + producer_warps) * 32; }
};

/// The translation unit of a spec's attention kernel. It depends on the variant's code,
/// the names and types of what that reads, head dims, dtypes and the config; scalar values, bounds,
/// sinks and the base of the LSE are arguments. Throws as validate(), and Error(not_supported)
/// where dtype_q and dtype_kv differ.
jit::KernelSource cuda_source(const AttentionSpec& spec, const CudaKernelConfig& config);

}  // namespace trencadis::codegen
