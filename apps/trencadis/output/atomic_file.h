// A file that appears whole or not at all.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace trencadis::app {

/// Checked when a command starts, so that a path that cannot be written is known before the work
/// and not after it; missing directories are made. Before commit() nothing is on disk that a signal
/// could leave behind. A symbolic link stays and its target is replaced; what is no regular file (a
/// device, a FIFO) and the file that stdout goes to are opened at once and written through.
class AtomicFile {
 public:
  /// Throws Error(io) with the path and the system's reason.
  explicit AtomicFile(std::string path);
  ~AtomicFile();  // without commit(): `path` is as it was
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Writes `bytes` beside the target and renames them into place. Once. Throws Error(io); no part
  /// of a file is left behind.
  void commit(std::string_view bytes);

  const std::string& path() const { return path_; }

 private:
  void write_through(std::string_view bytes);
  void replace_target(std::string_view bytes);

  std::string path_;
  std::filesystem::path target_;     // what `path` names once links are followed
  std::filesystem::path temporary_;  // beside the target; empty but while commit() writes it
  int descriptor_ = -1;              // from the start where bytes are written through
};

/// Two outputs of one command. Throws Error(invalid_argument) where both options name one file; an
/// empty path is an option that was not given.
void require_two_files(std::string_view first_option, const std::string& first,
                       std::string_view second_option, const std::string& second);

}  // namespace trencadis::app
