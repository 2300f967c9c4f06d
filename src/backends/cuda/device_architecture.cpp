#include "backends/cuda/device_architecture.h"

#include "base/check.h"

namespace trencadis::cuda {

const codegen::CudaArchitecture& architecture_of(const PrimaryContext& context) {
  const int major = context.attribute(DeviceAttribute::compute_capability_major);
  const int minor = context.attribute(DeviceAttribute::compute_capability_minor);
  const codegen::CudaArchitecture* architecture = codegen::cuda_architecture_of(major, minor);
  if (architecture == nullptr)
    base::fail(ErrorKind::not_supported,
               "device {} has compute capability {}.{}, kernels are generated for {}",
               context.ordinal(), major, minor, codegen::cuda_architecture_names());
  return *architecture;
}

}  // namespace trencadis::cuda
