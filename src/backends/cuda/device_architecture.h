// Which kernels a device runs.
#pragma once

#include "backends/cuda/resources.h"
#include "codegen/cuda_architecture.h"

namespace trencadis::cuda {

/// The one that $TRENCADIS_CUDA_ARCH names ("compute_80": PTX for older devices, which the driver
/// compiles for this one), else the best for the device. Throws Error(not_supported) where no
/// kernels are generated for the device, or the device does not run those that were asked for.
const codegen::CudaArchitecture& architecture_of(const PrimaryContext& context);

}  // namespace trencadis::cuda
