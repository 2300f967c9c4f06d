#include "backends/cuda/kernel_resources.h"

#include "codegen/cuda_source.h"
#include "jit/cubin.h"

namespace trencadis::cuda {

std::vector<KernelResources> kernel_resources(std::span<const std::byte> cubin) {
  const jit::Cubin code(cubin);
  std::vector<KernelResources> resources;
  for (const jit::CubinKernel& kernel : code.kernels()) {
    // The attention kernel alone is launched with dynamic shared memory.
    const int dynamic =
        kernel.name == codegen::kAttentionSymbol ? code.int_value(codegen::kSharedBytesSymbol) : 0;
    resources.push_back({.name = kernel.name,
                         .registers = kernel.registers,
                         .stack_bytes = kernel.stack_bytes,
                         .shared_bytes = kernel.static_shared_bytes + dynamic});
  }
  return resources;
}

}  // namespace trencadis::cuda
