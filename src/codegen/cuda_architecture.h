// The architectures that kernels are generated for.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace trencadis::codegen {

struct CudaArchitecture {
  /// As compilers are told it. With an "a" the code may use what this architecture alone has, and
  /// runs on it alone; without one it runs on later minor versions too. "compute_80" is code in PTX
  /// with the limits of sm_80, which a driver compiles for its own device.
  std::string_view name;
  int major, minor;                    // compute capability
  std::int64_t max_cta_shared_memory;  // bytes that a CTA may ask for

  bool is_ptx() const { return name.starts_with("compute_"); }
  /// Whether a device of this compute capability can run the code.
  bool runs_on(int device_major, int device_minor) const;
};

/// Oldest first, without those of PTX.
std::span<const CudaArchitecture> cuda_architectures();

/// Any of them, of PTX too. Null where kernels are generated for no such one.
const CudaArchitecture* find_cuda_architecture(std::string_view name);

/// The architecture whose kernels a device of this compute capability runs best; null: none.
const CudaArchitecture* cuda_architecture_of(int major, int minor);

/// "sm_75, sm_80, ..."
std::string cuda_architecture_names();

/// All that a device of this compute capability can run: "sm_90a, compute_75, ..."
std::string cuda_architecture_names_for(int major, int minor);

}  // namespace trencadis::codegen
