#include "jit/nvrtc.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/dynamic_library.h"
#include "base/env.h"

namespace trencadis::jit {
namespace {

namespace fs = std::filesystem;
using base::DynamicLibrary;

constexpr int kOldestMajor = 12;

constexpr const char* kSought =
    "libnvrtc.so.13 or .12 is neither where the dynamic linker looks, nor in lib64 of $CUDA_HOME, "
    "$CUDA_PATH or /usr/local/cuda, nor in a Python package below $VIRTUAL_ENV, $CONDA_PREFIX or "
    "$PYTHONPATH; install the Python package nvidia-cuda-nvrtc, or set TRENCADIS_LIBNVRTC to the "
    "library's path";

/// lib/python3.*/site-packages below a prefix, newest first.
std::vector<fs::path> site_packages(const fs::path& prefix) {
  std::vector<fs::path> result;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(prefix / "lib", ignored)) {
    if (entry.path().filename().string().starts_with("python3")) {
      result.push_back(entry.path() / "site-packages");
    }
  }
  std::sort(result.rbegin(), result.rend());
  return result;
}

/// The directories that Python would import packages from, as far as the environment tells.
std::vector<fs::path> python_directories() {
  std::vector<fs::path> result;
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const std::string prefix = base::environment(variable);
    if (prefix.empty()) continue;
    for (fs::path& directory : site_packages(prefix)) result.push_back(std::move(directory));
  }
  std::istringstream path(base::environment("PYTHONPATH"));
  for (std::string directory; std::getline(path, directory, ':');) {
    if (!directory.empty()) result.emplace_back(directory);
  }
  return result;
}

template <class Function>
bool bind(const DynamicLibrary& library, const char* name, Function*& function) {
  function = library.function<Function>(name);
  return function != nullptr;
}

std::optional<Nvrtc> bind_all(const DynamicLibrary& library) {
  Nvrtc nvrtc{};
  const bool complete = bind(library, "nvrtcGetErrorString", nvrtc.error_string) &&
                        bind(library, "nvrtcCreateProgram", nvrtc.create_program) &&
                        bind(library, "nvrtcDestroyProgram", nvrtc.destroy_program) &&
                        bind(library, "nvrtcCompileProgram", nvrtc.compile_program) &&
                        bind(library, "nvrtcGetProgramLogSize", nvrtc.log_size) &&
                        bind(library, "nvrtcGetProgramLog", nvrtc.log) &&
                        bind(library, "nvrtcGetCUBINSize", nvrtc.cubin_size) &&
                        bind(library, "nvrtcGetCUBIN", nvrtc.cubin) &&
                        bind(library, "nvrtcGetPTXSize", nvrtc.ptx_size) &&
                        bind(library, "nvrtcGetPTX", nvrtc.ptx);
  return complete ? std::optional(nvrtc) : std::nullopt;
}

/// Fills version or reason.
NvrtcSearch examine(const DynamicLibrary& library) {
  NvrtcSearch found{.description = {.name = "nvrtc", .path = library.path()}, .functions = {}};
  CompilerDescription& description = found.description;
  auto* query = library.function<int(int*, int*)>("nvrtcVersion");
  int major = 0;
  int minor = 0;
  if (query == nullptr || query(&major, &minor) != Nvrtc::kSuccess) {
    description.reason = library.path() + " does not tell its version";
    return found;
  }
  description.version = fmt::format("{}.{}", major, minor);
  found.functions = bind_all(library);
  if (major < kOldestMajor || !found.functions) {
    found.functions.reset();
    description.reason = fmt::format("{} is NVRTC {}, needed is {}.0 or newer", library.path(),
                                     description.version, kOldestMajor);
  }
  description.available = found.functions.has_value();
  return found;
}

}  // namespace

std::vector<std::string> nvrtc_candidates() {
  if (std::string chosen = base::environment("TRENCADIS_LIBNVRTC"); !chosen.empty()) {
    return {std::move(chosen)};
  }
  std::vector<fs::path> directories = {""};
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const std::string root = base::environment(variable);
    if (!root.empty()) directories.push_back(fs::path(root) / "lib64");
  }
  directories.emplace_back("/usr/local/cuda/lib64");
  if (const std::string conda = base::environment("CONDA_PREFIX"); !conda.empty()) {
    directories.push_back(fs::path(conda) / "lib");
  }
  for (const fs::path& packages : python_directories()) {
    directories.push_back(packages / "nvidia" / "cu13" / "lib");
    directories.push_back(packages / "nvidia" / "cuda_nvrtc" / "lib");
  }
  // The name without a number is a development file and may be missing.
  std::vector<std::string> paths;
  for (const fs::path& directory : directories) {
    for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}) {
      paths.push_back((directory / name).string());
    }
  }
  return paths;
}

NvrtcSearch find_nvrtc() {
  const bool chosen = !base::environment("TRENCADIS_LIBNVRTC").empty();
  NvrtcSearch failed{.description = {.name = "nvrtc"}, .functions = {}};
  std::string& reason = failed.description.reason;
  for (const std::string& path : nvrtc_candidates()) {
    std::string unloadable;
    const std::optional<DynamicLibrary> library = DynamicLibrary::open(path, &unloadable);
    if (library) {
      NvrtcSearch found = examine(*library);
      if (found.description.available) return found;
      if (reason.empty()) reason = found.description.reason;
    } else if (chosen) {
      reason = "TRENCADIS_LIBNVRTC is set, so only it was tried: " + unloadable;
    }
  }
  reason = "no NVRTC: " + (reason.empty() ? std::string(kSought) : reason);
  return failed;
}

CompilerDescription describe_nvrtc() {
  return find_nvrtc().description;
}

}  // namespace trencadis::jit
