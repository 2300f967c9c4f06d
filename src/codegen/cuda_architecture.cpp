#include "codegen/cuda_architecture.h"

#include <array>
#include <utility>

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

/// PTX that uses what one architecture alone has runs nowhere else: those with an "a" have none.
constexpr std::array<CudaArchitecture, 4> kPtx{{
    {"compute_75", 7, 5, 64 * kKiB},
    {"compute_80", 8, 0, 163 * kKiB},
    {"compute_86", 8, 6, 99 * kKiB},
    {"compute_89", 8, 9, 99 * kKiB},
}};

constexpr std::array<std::span<const CudaArchitecture>, 2> kLists{kArchitectures, kPtx};

void append(std::string& names, std::string_view name) {
  if (!names.empty()) names += ", ";
  names += name;
}

}  // namespace

bool CudaArchitecture::runs_on(int device_major, int device_minor) const {
  if (is_ptx()) return std::pair(major, minor) <= std::pair(device_major, device_minor);
  const bool exact_only = name.ends_with('a');
  return major == device_major && (exact_only ? minor == device_minor : minor <= device_minor);
}

std::span<const CudaArchitecture> cuda_architectures() {
  return kArchitectures;
}

const CudaArchitecture* find_cuda_architecture(std::string_view name) {
  for (const auto list : kLists)
    for (const CudaArchitecture& architecture : list)
      if (architecture.name == name) return &architecture;
  return nullptr;
}

const CudaArchitecture* cuda_architecture_of(int major, int minor) {
  const CudaArchitecture* best = nullptr;
  for (const CudaArchitecture& architecture : kArchitectures)
    if (architecture.runs_on(major, minor)) best = &architecture;
  return best;
}

std::string cuda_architecture_names() {
  std::string names;
  for (const CudaArchitecture& architecture : kArchitectures) append(names, architecture.name);
  return names;
}

std::string cuda_architecture_names_for(int major, int minor) {
  std::string names;
  for (const auto list : kLists)
    for (const CudaArchitecture& architecture : list)
      if (architecture.runs_on(major, minor)) append(names, architecture.name);
  return names;
}

}  // namespace trencadis::codegen
