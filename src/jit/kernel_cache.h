// From a kernel's source to its code in this process: memory, else disk, else the compiler.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "jit/compiler.h"
#include "jit/disk_cache.h"
#include "jit/kernel_source.h"
#include "jit/loader.h"

namespace trencadis::jit {

struct LoadedKernel {
  std::shared_ptr<const Module> module{};
  std::string key;          // content key, hex
  std::string path;         // the cache entry
  bool from_cache = false;  // no compiler ran for this call
  double seconds = 0.0;     // spent in the compiler
};

/// Kernels that this process has loaded. Safe for any number of threads; two that ask for one
/// kernel share one compilation, and other kernels do not wait for it.
class KernelCache {
 public:
  /// The kernel, loaded, with its symbols checked. Modules stay loaded as long as the cache lives.
  ///
  /// Where the compiler is missing, an entry that another compiler made from the same source for
  /// the same architecture is used. Throws Error(compile_failed) with the compiler's first error
  /// and where the source is kept; Error(not_supported) where a compiler is needed and missing;
  /// Error(io) where the cache cannot be written, naming the kernel and its prebuild command.
  LoadedKernel get_or_compile(const KernelSource& source, Compiler& compiler,
                              const DiskCache& disk);

 private:
  struct Slot {
    std::mutex mutex;  // held while the kernel is obtained
    LoadedKernel kernel;
  };

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Slot>> slots_;  // by the path of the cache entry
};

/// The one cache of the process, and the only process-wide mutable state of the library.
KernelCache& process_kernel_cache();

/// What callers want: the process's cache, the host compiler, the user's cache directory.
LoadedKernel load_host_kernel(const KernelSource& source);

}  // namespace trencadis::jit
