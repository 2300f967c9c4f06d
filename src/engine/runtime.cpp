// What a process can compile, and the cache of what it has compiled.
#include <trencadis/runtime.h>

#include "backends/cpu/variant_registry.h"
#include "backends/cuda/driver.h"
#include "backends/cuda/kernel_policy.h"
#include "backends/cuda/kernel_resources.h"
#include "backends/cuda/service_kernels.h"
#include "base/check.h"
#include "codegen/cuda_architecture.h"
#include "codegen/host_source.h"
#include "codegen/validate.h"
#include "jit/artifact_cache.h"
#include "jit/content_key.h"
#include "jit/disk_cache.h"
#include "jit/host_compiler.h"
#include "jit/kernel_cache.h"
#include "jit/nvrtc.h"

namespace trencadis {
namespace {

CompilerInfo to_public(const jit::CompilerDescription& compiler) {
  return {.name = compiler.name,
          .available = compiler.available,
          .path = compiler.path,
          .version = compiler.version,
          .reason = compiler.reason};
}

std::vector<CacheEntry> to_public(const std::vector<jit::EntryInfo>& infos) {
  std::vector<CacheEntry> entries;
  entries.reserve(infos.size());
  for (const jit::EntryInfo& info : infos) {
    entries.push_back({.key = info.key,
                       .name = info.name,
                       .compiler = info.compiler,
                       .bytes = info.bytes,
                       .intact = info.problem.empty(),
                       .problem = info.problem});
  }
  return entries;
}

jit::KernelSource source_for(const AttentionSpec& spec, const std::string& arch) {
  codegen::validate(spec);
  if (arch == "host") return codegen::host_source(spec.variant);
  const codegen::CudaArchitecture* architecture = codegen::find_cuda_architecture(arch);
  if (architecture == nullptr)
    base::fail(ErrorKind::not_supported, "arch is '{}', expected 'host' or one of {}", arch,
               codegen::cuda_architecture_names());
  return cuda::kernel_source(spec, *architecture);
}

/// Of a kernel that was loaded, whatever form its code has.
template <class Loaded>
CompiledKernel to_public(const jit::KernelSource& source, const Loaded& kernel) {
  return {.name = source.name,
          .key = kernel.key,
          .path = kernel.path,
          .from_cache = kernel.from_cache,
          .seconds = kernel.seconds,
          .resources = {}};
}

/// What an Attention of the spec prepares besides its own kernel: without it, a machine that cannot
/// compile would find one half of what it needs.
void compile_services(const AttentionSpec& spec, const std::string& arch, CompiledKernel& kernel) {
  for (const jit::KernelSource& source : cuda::service_sources(spec, arch)) {
    const jit::LoadedArtifact code = jit::load_device_kernel(source, arch);
    kernel.from_cache = kernel.from_cache && code.from_cache;
    kernel.seconds += code.seconds;
  }
}

jit::DiskCache disk_cache() {
  return jit::DiskCache(jit::default_cache_directory());
}

}  // namespace

std::vector<CompilerInfo> compilers() {
  return {to_public(jit::HostCompiler().describe()), to_public(jit::describe_nvrtc())};
}

CudaDriverInfo cuda_driver() {
  const cuda::DriverDescription driver = cuda::describe_driver();
  CudaDriverInfo info{.available = driver.available,
                      .path = driver.path,
                      .version = driver.version,
                      .reason = driver.reason,
                      .devices = {}};
  for (const cuda::DeviceDescription& device : driver.devices) {
    info.devices.push_back({.ordinal = device.ordinal,
                            .name = device.name,
                            .compute_capability_major = device.major,
                            .compute_capability_minor = device.minor,
                            .memory_bytes = device.memory_bytes});
  }
  return info;
}

CompiledKernel compile(const AttentionSpec& spec, const std::string& arch) {
  const jit::KernelSource source = source_for(spec, arch);
  if (source.language == jit::Language::cuda_cpp) {
    const jit::LoadedArtifact code = jit::load_device_kernel(source, arch);
    CompiledKernel kernel = to_public(source, code);
    // PTX has no registers yet.
    if (!codegen::find_cuda_architecture(arch)->is_ptx())
      kernel.resources = cuda::kernel_resources(*code.artifact);
    compile_services(spec, arch, kernel);
    return kernel;
  }
  if (const auto builtin = cpu::find_builtin_variant(spec.variant)) {
    return {.name = source.name,
            .key = jit::source_key(source),
            .path = builtin->origin(),
            .from_cache = true,
            .resources = {}};
  }
  return to_public(source, jit::load_host_kernel(source));
}

std::string kernel_source(const AttentionSpec& spec, const std::string& arch) {
  return source_for(spec, arch).text;
}

std::string cache_directory() {
  return jit::default_cache_directory();
}

std::vector<CacheEntry> cache_list() {
  return to_public(disk_cache().list());
}

std::vector<CacheEntry> cache_verify() {
  return to_public(disk_cache().verify());
}

std::int64_t cache_clear() {
  return disk_cache().clear();
}

}  // namespace trencadis
