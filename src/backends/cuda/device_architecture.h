// Which kernels a device runs.
#pragma once

#include "backends/cuda/resources.h"
#include "codegen/cuda_architecture.h"

namespace trencadis::cuda {

/// Throws Error(not_supported) where no kernels are generated for the device.
const codegen::CudaArchitecture& architecture_of(const PrimaryContext& context);

}  // namespace trencadis::cuda
