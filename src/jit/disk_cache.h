// Compiled kernels on disk: one file a content key. Several processes use a directory at once, may
// be killed at any moment, and may find it read-only or damaged.
//
//   <directory>/<key>.kernel    an entry, complete from the moment that it has this name
//   <directory>/locks/<key>     held (flock) by the process that compiles the key
//   <directory>/work/<name>/    a compilation under way; held (flock) by its process
//   <directory>/failed/<key>/   source, log and command of a compilation that failed
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "jit/compiler.h"
#include "jit/content_key.h"

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
  Artifact artifact;
};

/// $TRENCADIS_CACHE_DIR, else $XDG_CACHE_HOME/trencadis, else $HOME/.cache/trencadis. Throws
/// Error(io) where none of the three is set.
std::string default_cache_directory();

class DiskCache {
 public:
  explicit DiskCache(std::string directory) : directory_(std::move(directory)) {}

  const std::string& directory() const noexcept { return directory_; }
  std::string entry_path(const std::string& key) const;

  /// Reads and verifies an entry. nullopt: there is none. A damaged one has info.problem set and no
  /// artifact.
  std::optional<Entry> read(const std::string& key) const;

  /// An intact entry that any compiler made from this source for this architecture.
  std::optional<Entry> find_source(const std::string& source_key,
                                   const std::string& architecture) const;

  /// The sole right to compile a key, until it is destroyed or the process dies.
  class Lock;
  /// Waits until the key is free, at most `patience_seconds`: a holder that was stopped must not
  /// stop the others, and a second compilation is harmless. Throws Error(io) where the directory
  /// cannot be written.
  Lock lock(const std::string& key, double patience_seconds) const;

  /// A directory for one compilation. Removed on destruction; one that a killed process left is
  /// removed by the next that makes one.
  class WorkDirectory;
  WorkDirectory make_work_directory(const std::string& key) const;

  /// Puts a whole entry under its name, or nothing. Throws Error(io).
  void publish(const EntryInfo& info, const Artifact& artifact, const WorkDirectory& work) const;

  /// Moves a failed compilation to failed/<key>; returns that path.
  std::string keep_failed(const std::string& key, WorkDirectory& work) const;

  /// Every entry by key, from its header alone.
  std::vector<EntryInfo> list() const;
  /// The same after reading every byte.
  std::vector<EntryInfo> verify() const;
  /// Removes the entries and what is left of failed and killed compilations; returns the number of
  /// entries. Compilations under way are not disturbed.
  std::int64_t clear() const;

 private:
  std::string directory_;
};

class DiskCache::Lock {
 public:
  Lock(int file, std::string path) : file_(file), path_(std::move(path)) {}
  Lock(Lock&& other) noexcept : file_(other.file_), path_(std::move(other.path_)) {
    other.file_ = -1;
  }
  Lock& operator=(Lock&&) = delete;
  ~Lock();

 private:
  int file_ = -1;  // -1: waited in vain, going on without
  std::string path_;
};

class DiskCache::WorkDirectory {
 public:
  WorkDirectory(int file, std::string path) : file_(file), path_(std::move(path)) {}
  WorkDirectory(WorkDirectory&& other) noexcept
      : file_(other.file_), path_(std::move(other.path_)) {
    other.file_ = -1;
  }
  WorkDirectory& operator=(WorkDirectory&&) = delete;
  ~WorkDirectory();

  const std::string& path() const noexcept { return path_; }

 private:
  friend class DiskCache;
  int file_ = -1;  // the directory, locked
  std::string path_;
};

}  // namespace trencadis::jit
