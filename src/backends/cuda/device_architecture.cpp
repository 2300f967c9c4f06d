#include "backends/cuda/device_architecture.h"

#include <string>

#include "base/check.h"
#include "base/env.h"

namespace trencadis::cuda {

const codegen::CudaArchitecture& architecture_of(const PrimaryContext& context) {
  const int major = context.attribute(DeviceAttribute::compute_capability_major);
  const int minor = context.attribute(DeviceAttribute::compute_capability_minor);
  if (const std::string name = base::environment("TRENCADIS_CUDA_ARCH"); !name.empty()) {
    const codegen::CudaArchitecture* chosen = codegen::find_cuda_architecture(name);
    if (chosen == nullptr || !chosen->runs_on(major, minor))
      base::fail(
          ErrorKind::not_supported,
          "TRENCADIS_CUDA_ARCH is '{}', which device {} of compute capability {}.{} does not "
          "run, expected one of {}",
          name, context.ordinal(), major, minor,
          codegen::cuda_architecture_names_for(major, minor));
    return *chosen;
  }
  const codegen::CudaArchitecture* architecture = codegen::cuda_architecture_of(major, minor);
  if (architecture == nullptr)
    base::fail(ErrorKind::not_supported,
               "device {} has compute capability {}.{}, kernels are generated for {}",
               context.ordinal(), major, minor, codegen::cuda_architecture_names());
  return *architecture;
}

}  // namespace trencadis::cuda
