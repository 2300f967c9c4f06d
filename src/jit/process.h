// Running a compiler: a child process without a shell.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace trencadis::jit {

struct ProcessResult {
  int exit_code = 0;       // 0 also where the caller's process ignores SIGCHLD and the code is lost
  int signal = 0;          // that ended the process; 0: it ended by itself
  bool timed_out = false;  // killed by us
  std::string output;      // stdout and stderr as they came, at most the first MiB
};

struct ProcessOptions {
  std::string directory;                 // to run in; empty: the caller's
  std::vector<std::string> environment;  // NAME=value, over the caller's environment
  std::chrono::seconds timeout{60};
};

/// Runs arguments[0], a path, with stdin empty, in a process group of its own, which is killed at
/// the timeout. Throws Error(io) where the process cannot be started.
ProcessResult run_process(const std::vector<std::string>& arguments,
                          const ProcessOptions& options = {});

/// The file that a command name stands for: a path as it is, else the first executable of that name
/// in $PATH. Empty: none.
std::string find_program(const std::string& name);

}  // namespace trencadis::jit
