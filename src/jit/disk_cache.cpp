#include "jit/disk_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>

#include "base/check.h"
#include "base/env.h"
#include "base/files.h"
#include "jit/entry_format.h"

namespace trencadis::jit {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* kEntrySuffix = ".kernel";
constexpr const char* kLocks = "locks";
constexpr const char* kWork = "work";
constexpr const char* kFailed = "failed";

[[noreturn]] void fail_io(std::string_view action, const fs::path& path,
                          const std::error_code& error) {
  base::fail(ErrorKind::io, "cannot {} {}: {}", action, path.string(), error.message());
}

std::error_code last_error() {
  return {errno, std::generic_category()};
}

void make_directories(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) fail_io("create", path, error);
}

enum class Flock { taken, busy, unsupported };

Flock try_flock(int file) {
  if (flock(file, LOCK_EX | LOCK_NB) == 0) return Flock::taken;
  return errno == EWOULDBLOCK || errno == EINTR ? Flock::busy : Flock::unsupported;
}

/// Whether the path still leads to the open file: whoever held the lock before may have removed it.
bool same_file(int file, const std::string& path) {
  struct stat open_file {};
  struct stat named {};
  return fstat(file, &open_file) == 0 && stat(path.c_str(), &named) == 0 &&
         open_file.st_dev == named.st_dev && open_file.st_ino == named.st_ino;
}

Descriptor open_directory(const std::string& path) {
  return Descriptor(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

/// Removes the work directories whose processes are gone.
void sweep_work(const fs::path& work) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(work, ignored)) {
    const std::string path = entry.path().string();
    const Descriptor directory = open_directory(path);
    if (directory.valid() && try_flock(directory.number()) == Flock::taken) {
      fs::remove_all(path, ignored);
    }
  }
}

void remove_free_locks(const fs::path& locks) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(locks, ignored)) {
    const Descriptor file(open(entry.path().c_str(), O_RDWR | O_CLOEXEC));
    if (file.valid() && try_flock(file.number()) == Flock::taken) {
      fs::remove(entry.path(), ignored);
    }
  }
}

/// Paths of the entries, by key. None where there is no directory.
std::vector<fs::path> entry_paths(const std::string& directory) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == kEntrySuffix) paths.push_back(it->path());
  }
  if (error && error != std::errc::no_such_file_or_directory) fail_io("list", directory, error);
  std::sort(paths.begin(), paths.end());
  return paths;
}

EntryInfo read_info(const fs::path& path) {
  const std::string key = path.stem().string();
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::int64_t size = file.tellg();
  if (!file) return EntryInfo{.key = key, .problem = "it cannot be read"};
  std::string beginning(std::min<std::size_t>(kHeaderReadBytes, static_cast<std::size_t>(size)),
                        '\0');
  file.seekg(0);
  file.read(beginning.data(), static_cast<std::streamsize>(beginning.size()));
  beginning.resize(static_cast<std::size_t>(file.gcount()));
  return decode_info(beginning, size, key);
}

}  // namespace

std::string default_cache_directory() {
  if (std::string chosen = base::environment("TRENCADIS_CACHE_DIR"); !chosen.empty()) return chosen;
  if (std::string cache = base::environment("XDG_CACHE_HOME"); !cache.empty()) {
    return cache + "/trencadis";
  }
  if (std::string home = base::environment("HOME"); !home.empty()) {
    return home + "/.cache/trencadis";
  }
  base::fail(ErrorKind::io,
             "no place for compiled kernels: none of TRENCADIS_CACHE_DIR, XDG_CACHE_HOME and HOME "
             "is set; set TRENCADIS_CACHE_DIR to a directory");
}

std::string bundle_directory() {
  std::string bundle = base::environment("TRENCADIS_BUNDLE");
  std::error_code error;
  if (!bundle.empty() && !fs::is_directory(bundle, error))
    base::fail(ErrorKind::io, "TRENCADIS_BUNDLE is {}, expected a directory{}", bundle,
               error ? ": " + error.message() : "");
  return bundle;
}

KeyLock::~KeyLock() {
  // Removed while it is held: who waits for this file finds that the path leads elsewhere.
  if (held()) unlink(path_.c_str());
}

WorkDirectory::~WorkDirectory() {
  std::error_code ignored;
  if (directory_.valid()) fs::remove_all(path_, ignored);
}

std::string DiskCache::entry_path(const std::string& key) const {
  return directory_ + "/" + key + kEntrySuffix;
}

std::optional<Entry> DiskCache::read(const std::string& key) const {
  const std::string path = entry_path(key);
  std::error_code error;
  if (!fs::exists(path, error) && !error) return std::nullopt;
  try {
    return decode_entry(base::read_file(path), key);
  } catch (const Error& unreadable) {
    // Removed since, by `clear`.
    if (!fs::exists(path, error) && !error) return std::nullopt;
    return Entry{.info = {.key = key, .problem = unreadable.what()}, .artifact = {}};
  }
}

std::optional<Entry> DiskCache::find_source(const std::string& source_key,
                                            const std::string& architecture) const {
  for (const EntryInfo& info : list()) {
    const bool fits =
        info.problem.empty() && info.source_key == source_key && info.architecture == architecture;
    if (!fits) continue;
    if (std::optional<Entry> entry = read(info.key); entry && entry->info.problem.empty()) {
      return entry;
    }
  }
  return std::nullopt;
}

KeyLock DiskCache::lock(const std::string& key, double patience_seconds) const {
  make_directories(fs::path(directory_) / kLocks);
  const std::string path = (fs::path(directory_) / kLocks / key).string();
  const auto deadline = Clock::now() + std::chrono::duration<double>(patience_seconds);
  auto pause = std::chrono::milliseconds(1);
  for (;;) {
    Descriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (!file.valid()) fail_io("create", path, last_error());
    const Flock outcome = try_flock(file.number());
    if (outcome == Flock::taken && same_file(file.number(), path)) {
      return KeyLock(std::move(file), path);
    }
    if (outcome == Flock::unsupported || Clock::now() > deadline) return KeyLock();
    if (outcome == Flock::busy) {
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, std::chrono::milliseconds(50));
    }
  }
}

WorkDirectory DiskCache::make_work_directory(const std::string& key) const {
  const fs::path work = fs::path(directory_) / kWork;
  make_directories(work);
  sweep_work(work);
  // Between its making and its locking, another process may sweep the new directory away.
  constexpr int kAttempts = 100;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::string path = (work / (key + ".XXXXXX")).string();
    if (mkdtemp(path.data()) == nullptr) fail_io("create a directory in", work, last_error());
    Descriptor directory = open_directory(path);
    if (!directory.valid()) continue;
    const Flock outcome = try_flock(directory.number());
    if (outcome == Flock::busy || !same_file(directory.number(), path)) continue;
    return WorkDirectory(std::move(directory), path);
  }
  base::fail(ErrorKind::io, "directories in {} vanish as soon as they are made", work.string());
}

void DiskCache::publish(const EntryInfo& info, const Artifact& artifact,
                        const WorkDirectory& work) const {
  // Written in the work directory, so that a process killed here leaves nothing that is not swept.
  const fs::path written = fs::path(work.path()) / "entry";
  base::write_file_atomic(written, encode_entry(info, artifact));
  std::error_code error;
  fs::rename(written, entry_path(info.key), error);
  if (error) fail_io("put a kernel at", entry_path(info.key), error);
}

std::string DiskCache::keep_failed(const std::string& key, const CompileFailure& failure,
                                   const WorkDirectory& work) const {
  base::write_file_atomic(fs::path(work.path()) / "compile.log", failure.log);
  base::write_file_atomic(fs::path(work.path()) / "command", failure.command + "\n");
  const fs::path kept = fs::path(directory_) / kFailed / key;
  make_directories(kept.parent_path());
  std::error_code error;
  fs::remove_all(kept, error);
  if (!error) fs::rename(work.path(), kept, error);
  if (error) fail_io("keep a failed compilation in", kept, error);
  return kept.string();
}

std::vector<EntryInfo> DiskCache::list() const {
  std::vector<EntryInfo> infos;
  for (const fs::path& path : entry_paths(directory_)) infos.push_back(read_info(path));
  return infos;
}

std::vector<EntryInfo> DiskCache::verify() const {
  std::vector<EntryInfo> infos;
  for (const fs::path& path : entry_paths(directory_)) {
    if (std::optional<Entry> entry = read(path.stem().string())) infos.push_back(entry->info);
  }
  return infos;
}

std::int64_t DiskCache::clear() const {
  std::int64_t removed = 0;
  std::error_code error;
  for (const fs::path& path : entry_paths(directory_)) {
    if (fs::remove(path, error)) ++removed;
    if (error) fail_io("remove", path, error);
  }
  fs::remove_all(fs::path(directory_) / kFailed, error);
  if (error) fail_io("remove", fs::path(directory_) / kFailed, error);
  sweep_work(fs::path(directory_) / kWork);
  remove_free_locks(fs::path(directory_) / kLocks);
  return removed;
}

}  // namespace trencadis::jit
