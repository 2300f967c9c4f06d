#include "jit/kernel_cache.h"

#include "jit/host_compiler.h"
#include "jit/obtain.h"

namespace trencadis::jit {
namespace {

std::shared_ptr<const Module> load(const Artifact& artifact, const KernelSource& source) {
  auto module = std::make_shared<const Module>(Module::load(artifact, source.name));
  for (const std::string& symbol : source.symbols) module->symbol(symbol);
  return module;
}

}  // namespace

LoadedKernel KernelCache::get_or_compile(const KernelSource& source, Compiler& compiler,
                                         const DiskCache& disk) {
  Request request(source, compiler, disk);
  return kernels_.get(request.entry_path(), [&] {
    std::shared_ptr<const Module> module;
    Obtained kernel =
        request.obtain([&](const Artifact& artifact) { module = load(artifact, source); });
    return LoadedKernel{.module = std::move(module),
                        .key = std::move(kernel.key),
                        .path = std::move(kernel.path),
                        .from_cache = kernel.from_cache,
                        .seconds = kernel.seconds};
  });
}

KernelCache& process_kernel_cache() {
  // Never destroyed: other static objects may still run kernels while the process ends.
  static auto* cache = new KernelCache;
  return *cache;
}

LoadedKernel load_host_kernel(const KernelSource& source) {
  static HostCompiler compiler;  // what it finds out is remembered for the life of the process
  return process_kernel_cache().get_or_compile(source, compiler,
                                               DiskCache(default_cache_directory()));
}

}  // namespace trencadis::jit
