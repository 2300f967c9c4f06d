#include "jit/nvrtc.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <memory>

#include "base/env.h"

namespace trencadis::jit {
namespace {

struct CloseLibrary {
  void operator()(void* library) const { dlclose(library); }
};
using Library = std::unique_ptr<void, CloseLibrary>;

/// Once loaded it stays: it brings a C++ runtime of its own, whose memory unloading would leak.
Library open_library(const std::string& path) {
  return Library(dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE));
}

std::string path_of(void* library) {
  link_map* map = nullptr;
  return dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : "";
}

/// "" where the library does not tell.
std::string version_of(void* library) {
  using VersionFunction = int(int* major, int* minor);
  auto* query = reinterpret_cast<VersionFunction*>(dlsym(library, "nvrtcVersion"));
  int major = 0;
  int minor = 0;
  return query != nullptr && query(&major, &minor) == 0 ? fmt::format("{}.{}", major, minor) : "";
}

/// Newest first; the name without a number is a development file and may be missing.
std::vector<std::string> candidates() {
  std::vector<std::string> directories = {""};
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const std::string root = base::environment(variable);
    if (!root.empty()) directories.push_back(root + "/lib64/");
  }
  directories.emplace_back("/usr/local/cuda/lib64/");
  std::vector<std::string> paths;
  for (const std::string& directory : directories) {
    for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}) {
      paths.push_back(directory + name);
    }
  }
  return paths;
}

}  // namespace

CompilerDescription describe_nvrtc() {
  CompilerDescription description{.name = "nvrtc"};
  for (const std::string& path : candidates()) {
    const Library library = open_library(path);
    if (!library) continue;
    description.path = path_of(library.get());
    description.version = version_of(library.get());
    description.available = !description.version.empty();
    if (description.available) return description;
  }
  description.reason =
      description.path.empty()
          ? "libnvrtc.so.13 or .12 is neither where the dynamic linker looks nor in "
            "$CUDA_HOME, $CUDA_PATH or /usr/local/cuda (lib64)"
          : description.path + " does not tell its version";
  return description;
}

}  // namespace trencadis::jit
