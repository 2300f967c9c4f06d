// From a kernel's source to its code in this process: memory, else disk, else the compiler.
#pragma once

#include <memory>
#include <string>

#include "jit/compiler.h"
#include "jit/disk_cache.h"
#include "jit/kernel_source.h"
#include "jit/loader.h"
#include "jit/once_per_key.h"

namespace trencadis::jit {

struct LoadedKernel {
  std::shared_ptr<const Module> module{};
  std::string key;          // content key, hex
  std::string path;         // the cache entry
  bool from_cache = false;  // no compiler ran for this call
  double seconds = 0.0;     // spent in the compiler
};

/// Host kernels that this process has loaded. Safe for any number of threads; two that ask for one
/// kernel share one compilation, and other kernels do not wait for it.
class KernelCache {
 public:
  /// The kernel, loaded, with its symbols checked. Modules stay loaded as long as the cache lives.
  /// A cache entry that the linker refuses is built anew. Throws as Request::obtain (jit/obtain.h).
  LoadedKernel get_or_compile(const KernelSource& source, Compiler& compiler,
                              const DiskCache& disk);

 private:
  OncePerKey<LoadedKernel> kernels_;  // by the path of the cache entry
};

/// The process's own. It and process_artifact_cache() are the only process-wide mutable state of
/// the library.
KernelCache& process_kernel_cache();

/// What callers want: the process's cache, the host compiler, the user's cache directory.
LoadedKernel load_host_kernel(const KernelSource& source);

}  // namespace trencadis::jit
