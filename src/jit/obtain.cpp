#include "jit/obtain.h"

#include <fmt/format.h>
#include <trencadis/version.h>

#include <chrono>
#include <utility>

#include "base/check.h"

namespace trencadis::jit {
namespace {

// Longer than a compiler is let run.
constexpr double kLockPatienceSeconds = 330.0;

}  // namespace

Request::Request(const KernelSource& source, Compiler& compiler, const DiskCache& disk)
    : source_(source),
      compiler_(compiler),
      disk_(disk),
      bundle_(bundle_directory()),
      description_(compiler.describe()) {
  base::check(source.language == compiler.language(),
              "kernel {} is {} and the compiler '{}' takes {}", source.name,
              to_string(source.language), description_.name, to_string(compiler.language()));
  architecture_ = compiler.architecture();
  const std::string identity =
      description_.available ? compiler.identity() : std::string("no compiler");
  key_ = content_key(source, architecture_, identity);
}

Obtained Request::obtain(const Accept& accept) {
  if (auto kernel = from_bundle(accept)) return *std::move(kernel);
  if (!description_.available) return without_compiler(accept);
  if (auto kernel = from_disk(disk_, disk_.read(key_.key), accept)) return *std::move(kernel);
  return compile(accept);
}

std::optional<Obtained> Request::from_bundle(const Accept& accept) {
  if (bundle_.empty()) return std::nullopt;
  const DiskCache bundle(bundle_);
  return from_disk(bundle, bundle.find_source(key_.source_key, architecture_), accept);
}

/// An entry's bytes. A damaged one, or one that is refused, counts as none.
std::optional<Obtained> Request::from_disk(const DiskCache& disk, std::optional<Entry> entry,
                                           const Accept& accept) {
  if (!entry) return std::nullopt;
  problem_ = entry->info.problem;
  if (!problem_.empty()) return std::nullopt;
  try {
    accept(entry->artifact);
  } catch (const Error& error) {
    problem_ = error.what();
    return std::nullopt;
  }
  return Obtained{.artifact = std::move(entry->artifact),
                  .key = entry->info.key,
                  .path = disk.entry_path(entry->info.key),
                  .from_cache = true};
}

/// Runs what writes to the cache; where that fails, says which kernel was wanted and what to do.
template <class Action>
auto Request::writing(Action action) const {
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

Obtained Request::without_compiler(const Accept& accept) {
  if (auto kernel = from_disk(disk_, disk_.find_source(key_.source_key, architecture_), accept)) {
    return *std::move(kernel);
  }
  base::fail(ErrorKind::not_supported, "kernel {} is {}in the cache {} and {}{}", source_.name,
             bundle_.empty() ? "not " : fmt::format("neither in the bundle {} nor ", bundle_),
             disk_.directory(), description_.reason, prebuild_advice("; or prebuild it: "));
}

Obtained Request::compile(const Accept& accept) {
  const KeyLock lock = writing([&] { return disk_.lock(key_.key, kLockPatienceSeconds); });
  // Whoever held the lock before may have done the work.
  if (auto kernel = from_disk(disk_, disk_.read(key_.key), accept)) return *std::move(kernel);
  const WorkDirectory work = writing([&] { return disk_.make_work_directory(key_.key); });
  const auto start = std::chrono::steady_clock::now();
  auto result = writing([&] { return compiler_.compile(source_, work.path()); });
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  if (const auto* failure = std::get_if<CompileFailure>(&result)) report(*failure, work);

  Obtained kernel{.artifact = std::get<Artifact>(std::move(result)),
                  .key = key_.key,
                  .path = entry_path(),
                  .seconds = elapsed.count()};
  accept(kernel.artifact);
  const EntryInfo info{.key = key_.key,
                       .name = source_.name,
                       .compiler = description_.version,
                       .architecture = architecture_,
                       .source_key = key_.source_key,
                       .library = TRENCADIS_VERSION_STRING};
  writing([&] { disk_.publish(info, kernel.artifact, work); });
  return kernel;
}

void Request::report(const CompileFailure& failure, const WorkDirectory& work) const {
  const std::string kept = disk_.keep_failed(key_.key, failure, work);
  base::fail(ErrorKind::compile_failed,
             "kernel {} does not compile: {} (source, log and command are kept in {}); {}",
             source_.name, failure.first_error, kept, failure.advice);
}

std::string Request::prebuild_advice(const char* words) const {
  return source_.prebuild_command.empty() ? "" : words + source_.prebuild_command;
}

}  // namespace trencadis::jit
