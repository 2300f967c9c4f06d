#include "base/files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <system_error>

#include "base/check.h"

namespace trencadis::base {
namespace {

[[noreturn]] void fail_io(std::string_view action, const std::filesystem::path& path, int error) {
  fail(ErrorKind::io, "cannot {} {}: {}", action, path.string(),
       std::generic_category().message(error));
}

/// A file that is removed unless it was renamed into place.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::filesystem::path& target)
      : path_(target.string() + ".XXXXXX"), descriptor_(mkstemp(path_.data())) {
    if (descriptor_ < 0) fail_io("create a temporary file beside", target, errno);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (descriptor_ >= 0) close(descriptor_);
    if (!path_.empty()) unlink(path_.c_str());
  }

  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail_io("write", path_, errno);
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
  }

  void rename_to(const std::filesystem::path& target) {
    // mkstemp made it private; an ordinary file gets the modes that the umask leaves.
    const mode_t mask = umask(0);
    umask(mask);
    if (fchmod(descriptor_, 0666 & ~mask) != 0) fail_io("set the mode of", path_, errno);
    if (fsync(descriptor_) != 0) fail_io("flush", path_, errno);
    if (std::rename(path_.c_str(), target.c_str()) != 0) fail_io("replace", target, errno);
    path_.clear();
  }

 private:
  std::string path_;
  int descriptor_;
};

}  // namespace

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail_io("open", path, errno);
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad()) fail_io("read", path, errno);
  return std::move(text).str();
}

void write_file_atomic(const std::filesystem::path& path, std::string_view bytes) {
  TemporaryFile file(path);
  file.write(bytes);
  file.rename_to(path);
}

}  // namespace trencadis::base
