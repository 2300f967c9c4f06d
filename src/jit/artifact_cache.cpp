#include "jit/artifact_cache.h"

#include <utility>

#include "jit/nvrtc_compiler.h"
#include "jit/obtain.h"

namespace trencadis::jit {

LoadedArtifact ArtifactCache::get_or_compile(const KernelSource& source, Compiler& compiler,
                                             const DiskCache& disk) {
  Request request(source, compiler, disk);
  return artifacts_.get(request.entry_path(), [&] {
    Obtained kernel = request.obtain([](const Artifact&) {});
    return LoadedArtifact{.artifact = std::make_shared<const Artifact>(std::move(kernel.artifact)),
                          .key = std::move(kernel.key),
                          .path = std::move(kernel.path),
                          .from_cache = kernel.from_cache,
                          .seconds = kernel.seconds};
  });
}

ArtifactCache& process_artifact_cache() {
  // Never destroyed, as process_kernel_cache().
  static auto* cache = new ArtifactCache;
  return *cache;
}

LoadedArtifact load_device_kernel(const KernelSource& source, const std::string& architecture) {
  NvrtcCompiler compiler(architecture);
  return process_artifact_cache().get_or_compile(source, compiler,
                                                 DiskCache(default_cache_directory()));
}

}  // namespace trencadis::jit
