#include "jit/process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/check.h"
#include "base/env.h"
#include "jit/descriptor.h"

namespace trencadis::jit {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxOutput = std::size_t{1} << 20;
constexpr int kPollMilliseconds = 50;

std::string system_text(int error) {
  return std::generic_category().message(error);
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  result.reserve(strings.size() + 1);
  for (std::string& text : strings) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

/// The caller's environment with some variables replaced.
std::vector<std::string> merged_environment(const std::vector<std::string>& changes) {
  std::vector<std::string> result = changes;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text(*variable);
    const std::string_view name = text.substr(0, text.find('=') + 1);
    const bool replaced = std::any_of(changes.begin(), changes.end(),
                                      [&](const std::string& it) { return it.starts_with(name); });
    if (!replaced) result.emplace_back(text);
  }
  return result;
}

class SpawnSetup {
 public:
  SpawnSetup(const ProcessOptions& options, int output) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, output, STDERR_FILENO);
    if (!options.directory.empty()) {
      posix_spawn_file_actions_addchdir_np(&actions_, options.directory.c_str());
    }
    // Signals as in a fresh process, whatever the host program blocks or ignores.
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_init(&attributes_);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  SpawnSetup(const SpawnSetup&) = delete;
  SpawnSetup& operator=(const SpawnSetup&) = delete;
  ~SpawnSetup() {
    posix_spawnattr_destroy(&attributes_);
    posix_spawn_file_actions_destroy(&actions_);
  }

  pid_t spawn(std::vector<std::string> arguments, std::vector<std::string> environment) const {
    pid_t child = -1;
    const int error = posix_spawn(&child, arguments.front().c_str(), &actions_, &attributes_,
                                  pointers(arguments).data(), pointers(environment).data());
    if (error != 0) {
      base::fail(ErrorKind::io, "cannot run {}: {}", arguments.front(), system_text(error));
    }
    return child;
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

/// Appends what is there to read. False: the end of the output.
bool read_some(int file, std::string& output) {
  std::array<char, 16384> buffer;
  const ssize_t count = read(file, buffer.data(), buffer.size());
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  const auto room = kMaxOutput - std::min(kMaxOutput, output.size());
  output.append(buffer.data(), std::min(static_cast<std::size_t>(count), room));
  return count > 0;
}

void set_status(int status, ProcessResult& result) {
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
}

/// True once the child is gone. ECHILD: the host program ignores SIGCHLD and the system has thrown
/// the status away; whether the compilation worked shows in what it left.
bool reap(pid_t child, int flags, ProcessResult& result) {
  int status = 0;
  pid_t reaped = -1;
  do {
    reaped = waitpid(child, &status, flags);
  } while (reaped < 0 && errno == EINTR);
  if (reaped == 0) return false;
  if (reaped == child) set_status(status, result);
  return true;
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& arguments,
                          const ProcessOptions& options) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    base::fail(ErrorKind::io, "cannot make a pipe to {}: {}", arguments.front(),
               system_text(errno));
  }
  const Descriptor reading(ends[0]);
  Descriptor writing(ends[1]);
  const pid_t child = SpawnSetup(options, writing.number())
                          .spawn(arguments, merged_environment(options.environment));
  writing.reset();
  fcntl(reading.number(), F_SETFL, O_NONBLOCK);

  ProcessResult result;
  const auto deadline = Clock::now() + options.timeout;
  bool open = true;
  bool gone = false;
  while (open && !gone) {
    pollfd ready{reading.number(), POLLIN, 0};
    if (poll(&ready, 1, kPollMilliseconds) > 0) {
      open = read_some(reading.number(), result.output);
    } else {
      // Quiet for a while. A grandchild may hold the pipe open after the child has ended.
      gone = reap(child, WNOHANG, result);
    }
    if (open && !gone && Clock::now() > deadline) {
      result.timed_out = true;
      kill(-child, SIGKILL);
      break;
    }
  }
  if (!gone) reap(child, 0, result);
  return result;
}

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    return access(name.c_str(), X_OK) == 0 ? std::filesystem::absolute(name).string() : "";
  }
  const std::string path = base::environment("PATH");
  std::string_view rest = path;
  while (!rest.empty() && !name.empty()) {
    const std::string_view directory = rest.substr(0, rest.find(':'));
    std::string candidate = std::string(directory) + "/" + name;
    if (!directory.empty() && access(candidate.c_str(), X_OK) == 0) return candidate;
    rest.remove_prefix(std::min(rest.size(), directory.size() + 1));
  }
  return "";
}

}  // namespace trencadis::jit
