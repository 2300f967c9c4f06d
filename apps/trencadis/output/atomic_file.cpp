#include "output/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "output/failure.h"

namespace trencadis::app {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_to_write(const std::string& path, int error) {
  fail(ErrorKind::io, "{}: cannot be written: {}; name another file", path, std::strerror(error));
}

/// The end of a chain of links, which need not exist: that is where the file is to appear.
fs::path follow_links(fs::path path) {
  constexpr int kMaxLinks = 40;  // as Linux
  std::error_code error;
  for (int i = 0; i < kMaxLinks && fs::is_symlink(fs::symlink_status(path, error)); ++i)
    path = path.parent_path() / fs::read_symlink(path, error);
  return path;
}

fs::path directory_of(const fs::path& target) {
  return target.has_parent_path() ? target.parent_path() : fs::path(".");
}

bool is_stdout(const struct stat& found) {
  struct stat out {};
  return ::fstat(STDOUT_FILENO, &out) == 0 && out.st_dev == found.st_dev &&
         out.st_ino == found.st_ino;
}

/// Zero or the reason why no file can be made there. Leaves nothing there.
int error_of_new_file_in(const fs::path& directory) {
  const int probe = ::open(directory.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  if (probe >= 0) {
    ::close(probe);
    return 0;
  }
  // Some file systems have no unnamed files; permissions are all there is to ask them about.
  if (errno != EOPNOTSUPP && errno != EISDIR) return errno;
  return ::access(directory.c_str(), W_OK | X_OK) == 0 ? 0 : errno;
}

/// Zero or errno.
int write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

}  // namespace

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  struct stat found {};
  const bool exists = ::stat(path_.c_str(), &found) == 0;
  if (!exists && errno != ENOENT) fail_to_write(path_, errno);
  if (exists && S_ISDIR(found.st_mode)) fail_to_write(path_, EISDIR);
  if (exists && (!S_ISREG(found.st_mode) || is_stdout(found))) {
    // A second open of stdout's file would write over the start of what was printed.
    descriptor_ = is_stdout(found) ? ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0)
                                   : ::open(path_.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC);
    if (descriptor_ < 0) fail_to_write(path_, errno);
    return;
  }
  target_ = follow_links(path_);
  if (!target_.has_filename()) fail_to_write(path_, EISDIR);
  std::error_code error;
  if (target_.has_parent_path()) fs::create_directories(target_.parent_path(), error);
  if (error) fail_to_write(path_, error.value());
  if (const int reason = error_of_new_file_in(directory_of(target_))) fail_to_write(path_, reason);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::commit(std::string_view bytes) {
  if (target_.empty())
    write_through(bytes);
  else
    replace_target(bytes);
}

void AtomicFile::write_through(std::string_view bytes) {
  // What was printed before comes before.
  if (std::fflush(stdout) != 0) fail_to_write("stdout", errno);
  if (const int error = write_all(descriptor_, bytes)) fail_to_write(path_, error);
  const int closed = ::close(std::exchange(descriptor_, -1));
  if (closed != 0) fail_to_write(path_, errno);
}

void AtomicFile::replace_target(std::string_view bytes) {
  // A short name of its own, since the target's name may be as long as names can be.
  temporary_ = directory_of(target_) / fmt::format(".trencadis.{}.tmp", ::getpid());
  ::unlink(temporary_.c_str());  // of a process that was killed and had this number
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail_to_write(path_, errno);
  if (const int error = write_all(descriptor_, bytes)) fail_to_write(path_, error);
  if (::fsync(descriptor_) != 0 && errno != EINVAL) fail_to_write(path_, errno);
  const int closed = ::close(std::exchange(descriptor_, -1));
  if (closed != 0) fail_to_write(path_, errno);
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) fail_to_write(path_, errno);
  temporary_.clear();
}

void require_two_files(std::string_view first_option, const std::string& first,
                       std::string_view second_option, const std::string& second) {
  if (first.empty() || second.empty()) return;
  std::error_code error;
  const fs::path one = fs::weakly_canonical(fs::absolute(follow_links(first)), error);
  const fs::path two = fs::weakly_canonical(fs::absolute(follow_links(second)), error);
  const bool same = fs::equivalent(first, second, error) || (!one.empty() && one == two);
  if (same)
    fail(ErrorKind::invalid_argument, "{} and {} are both \"{}\", expected two files", first_option,
         second_option, second);
}

}  // namespace trencadis::app
