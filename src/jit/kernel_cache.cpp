#include "jit/kernel_cache.h"

#include <fmt/format.h>
#include <trencadis/version.h>

#include <chrono>
#include <optional>

#include "base/check.h"
#include "jit/content_key.h"
#include "jit/host_compiler.h"

namespace trencadis::jit {
namespace {

// Longer than a compiler is let run.
constexpr double kLockPatienceSeconds = 330.0;

/// One kernel on its way into the process.
class Loading {
 public:
  Loading(const KernelSource& source, Compiler& compiler, const DiskCache& disk)
      : source_(source), compiler_(compiler), disk_(disk), description_(compiler.describe()) {
    base::check(source.language == compiler.language(),
                "kernel {} is {} and the compiler '{}' takes {}", source.name,
                to_string(source.language), description_.name, to_string(compiler.language()));
    architecture_ = compiler.architecture();
    const std::string identity =
        description_.available ? compiler.identity() : std::string("no compiler");
    key_ = content_key(source, architecture_, identity);
  }

  std::string slot() const { return disk_.entry_path(key_.key); }

  LoadedKernel obtain() {
    if (!description_.available) return without_compiler();
    if (auto kernel = from_disk(disk_.read(key_.key))) return *kernel;
    return compile();
  }

 private:
  /// Loads an entry. A damaged one, or one that the linker refuses, counts as none.
  std::optional<LoadedKernel> from_disk(const std::optional<Entry>& entry) {
    if (!entry) return std::nullopt;
    problem_ = entry->info.problem;
    if (!problem_.empty()) return std::nullopt;
    try {
      return LoadedKernel{.module = load(entry->artifact),
                          .key = entry->info.key,
                          .path = disk_.entry_path(entry->info.key),
                          .from_cache = true};
    } catch (const Error& error) {
      problem_ = error.what();
      return std::nullopt;
    }
  }

  std::shared_ptr<const Module> load(const Artifact& artifact) const {
    auto module = std::make_shared<const Module>(Module::load(artifact, source_.name));
    for (const std::string& symbol : source_.symbols) module->symbol(symbol);
    return module;
  }

  /// Runs what writes to the cache; where that fails, says which kernel was wanted and what to do.
  template <class Action>
  auto writing(Action action) const {
    try {
      return action();
    } catch (const Error& error) {
      const std::string state =
          problem_.empty() ? std::string("is not in the cache")
                           : fmt::format("has a cache entry that cannot be used ({})", problem_);
      base::fail(error.kind(),
                 "kernel {} {} and cannot be put there: {}; set TRENCADIS_CACHE_DIR to a directory "
                 "that can be written{}",
                 source_.name, state, error.what(),
                 prebuild_advice(", or prebuild the kernel where this one can be: "));
    }
  }

  LoadedKernel without_compiler() {
    if (auto kernel = from_disk(disk_.find_source(key_.source_key, architecture_))) return *kernel;
    base::fail(ErrorKind::not_supported, "kernel {} is not in the cache {} and {}{}", source_.name,
               disk_.directory(), description_.reason, prebuild_advice("; or prebuild it: "));
  }

  LoadedKernel compile() {
    const KeyLock lock = writing([&] { return disk_.lock(key_.key, kLockPatienceSeconds); });
    // Whoever held the lock before may have done the work.
    if (auto kernel = from_disk(disk_.read(key_.key))) return *kernel;
    const WorkDirectory work = writing([&] { return disk_.make_work_directory(key_.key); });
    const auto start = std::chrono::steady_clock::now();
    const auto result = writing([&] { return compiler_.compile(source_, work.path()); });
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (const auto* failure = std::get_if<CompileFailure>(&result)) report(*failure, work);

    const auto& artifact = std::get<Artifact>(result);
    LoadedKernel kernel{.module = load(artifact),
                        .key = key_.key,
                        .path = disk_.entry_path(key_.key),
                        .seconds = elapsed.count()};
    const EntryInfo info{.key = key_.key,
                         .name = source_.name,
                         .compiler = description_.version,
                         .architecture = architecture_,
                         .source_key = key_.source_key,
                         .library = TRENCADIS_VERSION_STRING};
    writing([&] { disk_.publish(info, artifact, work); });
    return kernel;
  }

  [[noreturn]] void report(const CompileFailure& failure, const WorkDirectory& work) const {
    const std::string kept = disk_.keep_failed(key_.key, failure, work);
    base::fail(ErrorKind::compile_failed,
               "kernel {} does not compile: {} (source, log and command are kept in {}); {}",
               source_.name, failure.first_error, kept, failure.advice);
  }

  std::string prebuild_advice(const char* words) const {
    return source_.prebuild_command.empty() ? "" : words + source_.prebuild_command;
  }

  const KernelSource& source_;
  Compiler& compiler_;
  const DiskCache& disk_;
  CompilerDescription description_;
  std::string architecture_;
  ContentKey key_;
  std::string problem_;  // of the entry that could not be used
};

}  // namespace

LoadedKernel KernelCache::get_or_compile(const KernelSource& source, Compiler& compiler,
                                         const DiskCache& disk) {
  Loading loading(source, compiler, disk);
  std::shared_ptr<Slot> slot;
  {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Slot>& place = slots_[loading.slot()];
    if (!place) place = std::make_shared<Slot>();
    slot = place;
  }
  const std::lock_guard lock(slot->mutex);
  if (slot->kernel.module) {
    LoadedKernel kernel = slot->kernel;
    kernel.from_cache = true;
    kernel.seconds = 0.0;
    return kernel;
  }
  slot->kernel = loading.obtain();
  return slot->kernel;
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
