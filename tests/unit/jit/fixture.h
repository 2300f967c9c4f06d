// What the tests of run-time compilation share: directories that vanish, kernels of one line, and
// compilers that count, fail or hang.
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <trencadis/error.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <sstream>
#include <string>

#include "jit/host_compiler.h"
#include "jit/kernel_cache.h"
#include "jit/process.h"

namespace trencadis::jit {

namespace fs = std::filesystem;

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string path = (fs::temp_directory_path() / "trencadis-jit.XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr) throw std::runtime_error("no temporary directory");
    fs::permissions(path, fs::perms(0755));  // children may run as another user
    path_ = path;
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  fs::path path() const { return path_; }
  fs::path operator/(const std::string& name) const { return path_ / name; }

 private:
  fs::path path_;
};

/// An environment variable for the length of a scope.
class ScopedVariable {
 public:
  ScopedVariable(std::string name, const std::string& value) : name_(std::move(name)) {
    if (const char* before = std::getenv(name_.c_str())) before_ = before;
    setenv(name_.c_str(), value.c_str(), 1);
  }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;
  ~ScopedVariable() {
    if (before_) {
      setenv(name_.c_str(), before_->c_str(), 1);
    } else {
      unsetenv(name_.c_str());
    }
  }

 private:
  std::string name_;
  std::optional<std::string> before_;
};

inline void write_text(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline std::string read_text(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

inline KernelSource answer_kernel(int answer, std::span<const EmbeddedFile> headers = {}) {
  KernelSource source;
  source.name = "answer";
  source.text = "extern \"C\" int answer() { return " + std::to_string(answer) + "; }\n";
  source.symbols = {"answer"};
  source.prebuild_command = "make answer";
  source.headers = headers;
  return source;
}

inline int call_answer(const LoadedKernel& kernel) {
  return reinterpret_cast<int (*)()>(const_cast<void*>(kernel.module->symbol("answer")))();
}

/// Writes a shell script that stands for a compiler. Questions (--version, -dM) go to the real one;
/// `on_compile` runs when a kernel is compiled, with the real compiler as $REAL.
inline fs::path write_compiler(const fs::path& path, const std::string& on_compile) {
  const std::string real = find_program("c++");
  write_text(path, "#!/bin/sh\nREAL=" + real + "\ncase \" $* \" in\n*\" -shared \"*)\n" +
                       on_compile + "\n;;\nesac\nexec $REAL \"$@\"\n");
  fs::permissions(path, fs::perms(0755));
  return path;
}

/// A compiler that appends a line to `log` for each kernel that it compiles.
inline fs::path write_counting_compiler(const fs::path& path, const fs::path& log,
                                        const std::string& then = "") {
  return write_compiler(path, "echo compiled >> " + log.string() + "\n" + then);
}

inline int count_lines(const fs::path& path) {
  std::ifstream file(path);
  int lines = 0;
  for (std::string line; std::getline(file, line);) ++lines;
  return lines;
}

/// Every file and directory below a path, with its size and time of writing.
inline std::map<std::string, std::string> snapshot(const fs::path& root) {
  std::map<std::string, std::string> result;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root)) {
    struct stat status {};
    stat(entry.path().c_str(), &status);
    result[entry.path().string()] = std::to_string(status.st_size) + " " +
                                    std::to_string(status.st_mtim.tv_sec) + "." +
                                    std::to_string(status.st_mtim.tv_nsec);
  }
  return result;
}

/// Runs `body` in a process of its own; its result is the exit code, an exception is 99.
inline pid_t start_process(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child != 0) return child;
  int code = 99;
  try {
    code = body();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "child: %s\n", error.what());
  }
  _exit(code);
}

/// The exit code, or minus the signal that ended the process.
inline int wait_for(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/// The text of the Error that an action throws; fails the test where it throws none of the kind.
inline std::string error_text(ErrorKind kind, const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(to_string(error.kind()), to_string(kind)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error, expected: " << to_string(kind);
  return "";
}

}  // namespace trencadis::jit
