// The architectures that kernels are generated for.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace trencadis::codegen {

struct CudaArchitecture {
  /// As compilers are told it. With an "a" the code may use what this architecture alone has, and
  /// runs on it alone; without one it runs on later minor versions too.
  std::string_view name;
  int major, minor;                    // compute capability
  std::int64_t max_cta_shared_memory;  // bytes that a CTA may ask for
};

/// Oldest first.
std::span<const CudaArchitecture> cuda_architectures();

/// Null where kernels are generated for no such one.
const CudaArchitecture* find_cuda_architecture(std::string_view name);

/// The architecture whose kernels a device of this compute capability runs best; null: none.
const CudaArchitecture* cuda_architecture_of(int major, int minor);

/// "sm_75, sm_80, ..."
std::string cuda_architecture_names();

}  // namespace trencadis::codegen
