// What a process can compile, and the cache of what it has compiled.
#include <trencadis/runtime.h>

#include "backends/cpu/variant_registry.h"
#include "codegen/host_source.h"
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

jit::DiskCache disk_cache() {
  return jit::DiskCache(jit::default_cache_directory());
}

}  // namespace

std::vector<CompilerInfo> compilers() {
  return {to_public(jit::HostCompiler().describe()), to_public(jit::describe_nvrtc())};
}

CompiledKernel compile(const AttentionSpec& spec, const std::string& arch) {
  const jit::KernelSource source = codegen::kernel_source(spec, arch);
  if (const auto builtin = cpu::find_builtin_variant(spec.variant)) {
    return {.name = source.name,
            .key = jit::source_key(source),
            .path = builtin->origin(),
            .from_cache = true};
  }
  const jit::LoadedKernel kernel = jit::load_host_kernel(source);
  return {.name = source.name,
          .key = kernel.key,
          .path = kernel.path,
          .from_cache = kernel.from_cache,
          .seconds = kernel.seconds};
}

std::string kernel_source(const AttentionSpec& spec, const std::string& arch) {
  return codegen::kernel_source(spec, arch).text;
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
