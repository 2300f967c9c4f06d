// From a kernel's source to its bytes: prebuilt, else the disk cache, else the compiler. What is
// done with the bytes is the caller's business: a shared object is loaded into this process, device
// code into contexts.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "jit/compiler.h"
#include "jit/content_key.h"
#include "jit/disk_cache.h"
#include "jit/kernel_source.h"

namespace trencadis::jit {

struct Obtained {
  Artifact artifact{};
  std::string key;          // content key, hex
  std::string path;         // the cache entry
  bool from_cache = false;  // no compiler ran for this call
  double seconds = 0.0;     // spent in the compiler
};

/// Tries the bytes out; throws Error where they are of no use. An entry of the disk cache that is
/// refused counts as none; bytes fresh from the compiler that are refused are an error, and are not
/// put into the cache.
using Accept = std::function<void(const Artifact&)>;

/// One kernel that is asked for. Holds references to all that it is made of.
class Request {
 public:
  /// Throws Error(invalid_argument) where the compiler takes another language.
  Request(const KernelSource& source, Compiler& compiler, const DiskCache& disk);

  /// The path of the cache entry. Equal paths mean equal kernels.
  std::string entry_path() const { return disk_.entry_path(key_.key); }

  /// From the bundle, else the disk cache, else the compiler. Of the bundle, and where the compiler
  /// is missing, an entry that another compiler made from the same source for the same architecture
  /// is used. Throws Error(compile_failed) with the compiler's first error
  /// and where the source is kept; Error(not_supported) where a compiler is needed and missing;
  /// Error(io) where the cache cannot be written, naming the kernel and its prebuild command.
  Obtained obtain(const Accept& accept);

 private:
  std::optional<Obtained> from_disk(const DiskCache& disk, std::optional<Entry> entry,
                                    const Accept& accept);
  std::optional<Obtained> from_bundle(const Accept& accept);
  Obtained without_compiler(const Accept& accept);
  Obtained compile(const Accept& accept);
  [[noreturn]] void report(const CompileFailure& failure, const WorkDirectory& work) const;
  std::string prebuild_advice(const char* words) const;
  template <class Action>
  auto writing(Action action) const;

  const KernelSource& source_;
  Compiler& compiler_;
  const DiskCache& disk_;
  std::string bundle_;  // directory; empty: none
  CompilerDescription description_;
  std::string architecture_;
  ContentKey key_;
  std::string problem_;  // of the entry that could not be used
};

}  // namespace trencadis::jit
