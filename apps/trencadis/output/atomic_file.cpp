#include "output/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "output/failure.h"

namespace trencadis::app {
namespace {

[[noreturn]] void fail_to_write(const std::string& path, int error) {
  fail(ErrorKind::io, "{}: cannot be written: {}; name another file", path, std::strerror(error));
}

}  // namespace

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  const std::filesystem::path target(path_);
  if (std::filesystem::is_directory(target)) fail_to_write(path_, EISDIR);
  std::error_code error;
  if (target.has_parent_path()) std::filesystem::create_directories(target.parent_path(), error);
  if (error) fail_to_write(path_, error.value());
  temporary_ = fmt::format("{}.{}.tmp", path_, ::getpid());
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail_to_write(path_, errno);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::commit(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_to_write(path_, errno);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  if (::fsync(descriptor_) != 0 && errno != EINVAL) fail_to_write(path_, errno);
  const int closed = ::close(descriptor_);
  descriptor_ = -1;
  if (closed != 0) fail_to_write(path_, errno);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail_to_write(path_, errno);
  temporary_.clear();
}

}  // namespace trencadis::app
