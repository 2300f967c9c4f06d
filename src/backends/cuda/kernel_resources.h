// What the kernels of a spec take, known without a device.
#pragma once

#include <trencadis/runtime.h>

#include <cstddef>
#include <span>
#include <vector>

namespace trencadis::cuda {

/// Of the code that kernel_source() compiles to, sorted by name. Throws Error(io) where the bytes
/// are not such code.
std::vector<KernelResources> kernel_resources(std::span<const std::byte> cubin);

}  // namespace trencadis::cuda
