// How much shared memory a kernel takes, before it is compiled.
#pragma once

#include <trencadis/attention_spec.h>

#include <cstdint>

#include "codegen/cuda_source.h"
#include "contract/plan.h"

namespace trencadis::cuda {

/// Dynamic shared memory of the attention kernel, in bytes: what entry::kSharedBytes will be, by
/// the layouts of kernels/cuda/collective/shape.h and vector_loop.h, or entry::kRingSharedBytes, by
/// those of ring_layout.h and small_loop.h. Tests hold the two sides together.
std::int64_t shared_bytes(const AttentionSpec& spec, const codegen::CudaKernelConfig& config);

}  // namespace trencadis::cuda
