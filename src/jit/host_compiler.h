// The C++ compiler of this machine.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "jit/compiler.h"

namespace trencadis::jit {

/// The instruction set of this machine, without asking a compiler: "x86_64 avx avx2 ...". Kernels
/// made for one machine run on every machine with the same string. Throws Error(io) where the
/// system does not tell.
std::string host_architecture();

/// $TRENCADIS_CXX where it is set, else the first that works of $CXX, c++, g++, clang++. Either
/// variable may hold arguments after the command, separated by spaces: "ccache g++".
///
/// Looks for the compiler on first use and remembers it. Safe for any number of threads.
class HostCompiler final : public Compiler {
 public:
  explicit HostCompiler(std::chrono::seconds timeout = std::chrono::seconds(300))
      : timeout_(timeout) {}

  CompilerDescription describe() override;
  Language language() const override { return Language::host_cpp; }
  std::string architecture() override { return host_architecture(); }
  std::string identity() override;
  std::variant<Artifact, CompileFailure> compile(const KernelSource& source,
                                                 const std::string& work_directory) override;

 private:
  struct Found {
    CompilerDescription description;
    std::vector<std::string> command;  // the program and the arguments that came with its name
  };

  const Found& found();

  std::chrono::seconds timeout_;
  std::mutex mutex_;  // guards both
  std::optional<Found> found_;
  std::optional<std::string> identity_;
};

}  // namespace trencadis::jit
