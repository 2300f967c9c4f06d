#include "codegen/cuda_architecture.h"

#include <array>

namespace trencadis::codegen {
namespace {

constexpr std::int64_t kKiB = 1024;

// Shared memory: the CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
constexpr std::array<CudaArchitecture, 7> kArchitectures{{
    {"sm_75", 7, 5, 64 * kKiB},
    {"sm_80", 8, 0, 163 * kKiB},
    {"sm_86", 8, 6, 99 * kKiB},
    {"sm_89", 8, 9, 99 * kKiB},
    {"sm_90a", 9, 0, 227 * kKiB},
    {"sm_100a", 10, 0, 227 * kKiB},
    {"sm_120a", 12, 0, 99 * kKiB},
}};

}  // namespace

std::span<const CudaArchitecture> cuda_architectures() {
  return kArchitectures;
}

const CudaArchitecture* find_cuda_architecture(std::string_view name) {
  for (const CudaArchitecture& architecture : kArchitectures)
    if (architecture.name == name) return &architecture;
  return nullptr;
}

const CudaArchitecture* cuda_architecture_of(int major, int minor) {
  const CudaArchitecture* best = nullptr;
  for (const CudaArchitecture& architecture : kArchitectures) {
    const bool exact_only = architecture.name.ends_with('a');
    const bool runs = exact_only ? architecture.minor == minor : architecture.minor <= minor;
    if (architecture.major == major && runs) best = &architecture;
  }
  return best;
}

std::string cuda_architecture_names() {
  std::string names;
  for (const CudaArchitecture& architecture : kArchitectures) {
    if (!names.empty()) names += ", ";
    names += architecture.name;
  }
  return names;
}

}  // namespace trencadis::codegen
