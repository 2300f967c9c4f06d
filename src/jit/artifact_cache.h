// From a kernel's source to its bytes in this process: memory, else disk, else the compiler. For
// device code, which each context loads for itself: one process may hold several devices.
#pragma once

#include <memory>
#include <string>

#include "jit/compiler.h"
#include "jit/disk_cache.h"
#include "jit/kernel_source.h"
#include "jit/once_per_key.h"

namespace trencadis::jit {

struct LoadedArtifact {
  std::shared_ptr<const Artifact> artifact{};  // never null
  std::string key;                             // content key, hex
  std::string path;                            // the cache entry
  bool from_cache = false;                     // no compiler ran for this call
  double seconds = 0.0;                        // spent in the compiler
};

/// Kernels whose bytes this process holds. Safe for any number of threads, as KernelCache is.
class ArtifactCache {
 public:
  /// The bytes, verified against their checksum and not otherwise looked at. They stay in memory as
  /// long as the cache lives. Throws as Request::obtain (jit/obtain.h).
  LoadedArtifact get_or_compile(const KernelSource& source, Compiler& compiler,
                                const DiskCache& disk);

 private:
  OncePerKey<LoadedArtifact> artifacts_;  // by the path of the cache entry
};

/// The process's own.
ArtifactCache& process_artifact_cache();

/// What callers want: the process's cache, NVRTC for an architecture ("sm_90a"), the user's cache
/// directory.
LoadedArtifact load_device_kernel(const KernelSource& source, const std::string& architecture);

}  // namespace trencadis::jit
