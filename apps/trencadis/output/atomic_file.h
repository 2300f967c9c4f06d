// A file that appears whole or not at all.
#pragma once

#include <string>
#include <string_view>

namespace trencadis::app {

/// Opened when a command starts, so that a path that cannot be written is known before the work and
/// not after it; missing directories are made. Nothing is seen at `path` before commit().
class AtomicFile {
 public:
  /// Throws Error(io) with the path and the system's reason.
  explicit AtomicFile(std::string path);
  ~AtomicFile();  // without commit(): `path` is as it was
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Writes `bytes` and renames them into place. Once. Throws Error(io); nothing is left behind.
  void commit(std::string_view bytes);

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::string temporary_;  // beside `path`; empty once committed
  int descriptor_ = -1;
};

}  // namespace trencadis::app
