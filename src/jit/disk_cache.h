// Compiled kernels on disk: one file a content key. Several processes use a directory at once, may
// be killed at any moment, and may find it read-only or damaged.
//
// The code that lies here runs with the rights of the process: the checksums find accidents, and
// who may write to the directory is trusted as one who may write to the library itself.
//
//   <directory>/<key>.kernel    an entry, complete from the moment that it has this name
//   <directory>/locks/<key>     held (flock) by the process that compiles the key
//   <directory>/work/<name>/    a compilation under way; held (flock) by its process
//   <directory>/failed/<key>/   source, log and command of a compilation that failed
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "jit/compiler.h"
#include "jit/descriptor.h"

namespace trencadis::jit {

struct EntryInfo {
  std::string key;
  std::string name;          // of the kernel
  std::string compiler;      // its version
  std::string architecture;  // what it was made for
  std::string source_key;    // ContentKey::source_key
  std::string library;       // version of the library that made it
  std::int64_t bytes = 0;    // of the file
  std::string problem;       // empty where the entry is intact
};

struct Entry {
  EntryInfo info;
  Artifact artifact;  // empty where info.problem is not
};

/// $TRENCADIS_CACHE_DIR, else $XDG_CACHE_HOME/trencadis, else $HOME/.cache/trencadis. Throws
/// Error(io) where none of the three is set.
std::string default_cache_directory();

/// $TRENCADIS_BUNDLE: kernels that were prebuilt (`trencadis compile --output`), which are looked
/// for before any cache, whichever compiler made them, and never written. Empty where it is not
/// set. Throws Error(io) where it is no directory.
std::string bundle_directory();

/// The sole right to compile a key, until it is destroyed or the process dies.
class KeyLock {
 public:
  /// Without a file: the patience was at an end, or the file system has no locks.
  KeyLock() = default;
  KeyLock(Descriptor file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}
  KeyLock(KeyLock&&) noexcept = default;
  KeyLock& operator=(KeyLock&&) = delete;
  ~KeyLock();

  bool held() const noexcept { return file_.valid(); }

 private:
  Descriptor file_;
  std::string path_;
};

/// A directory for one compilation, removed with everything in it on destruction. One that a killed
/// process left is removed by the next process that makes one.
class WorkDirectory {
 public:
  WorkDirectory(Descriptor directory, std::string path)
      : directory_(std::move(directory)), path_(std::move(path)) {}
  WorkDirectory(WorkDirectory&&) noexcept = default;
  WorkDirectory& operator=(WorkDirectory&&) = delete;
  ~WorkDirectory();

  const std::string& path() const noexcept { return path_; }

 private:
  Descriptor directory_;  // locked: the sign that somebody works here
  std::string path_;
};

class DiskCache {
 public:
  explicit DiskCache(std::string directory) : directory_(std::move(directory)) {}

  const std::string& directory() const noexcept { return directory_; }
  std::string entry_path(const std::string& key) const;

  /// Reads and verifies an entry; a damaged one comes with info.problem. nullopt: there is none.
  std::optional<Entry> read(const std::string& key) const;

  /// An intact entry that any compiler made from this source for this architecture.
  std::optional<Entry> find_source(const std::string& source_key,
                                   const std::string& architecture) const;

  /// Waits until the key is free, at most `patience_seconds`: a holder that was stopped must not
  /// stop the others, and a second compilation does no harm. Throws Error(io) where the directory
  /// cannot be written.
  KeyLock lock(const std::string& key, double patience_seconds) const;

  /// Throws Error(io).
  WorkDirectory make_work_directory(const std::string& key) const;

  /// Puts a whole entry under its name, or nothing; info.bytes is not read. Throws Error(io).
  void publish(const EntryInfo& info, const Artifact& artifact, const WorkDirectory& work) const;

  /// Keeps what lies in the work directory, with the compiler's log and command, as failed/<key> in
  /// place of what was there. Returns that path. Throws Error(io).
  std::string keep_failed(const std::string& key, const CompileFailure& failure,
                          const WorkDirectory& work) const;

  /// Every entry, by key. `problem` tells of a bad header only: the rest is not read.
  std::vector<EntryInfo> list() const;
  /// The same after reading every byte.
  std::vector<EntryInfo> verify() const;
  /// Removes the entries and what is left of failed and killed compilations; returns the number of
  /// entries. Compilations under way are not disturbed. Throws Error(io).
  std::int64_t clear() const;

 private:
  std::string directory_;
};

}  // namespace trencadis::jit
