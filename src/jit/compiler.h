// The one interface that host and device compilers stand behind.
#pragma once

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include "jit/kernel_source.h"

namespace trencadis::jit {

struct CompilerDescription {
  std::string name;  // "host", "nvrtc"
  bool available = false;
  std::string path;
  std::string version;  // one line
  std::string reason;   // why it is not available, with what was searched; empty where it is
};

/// The compiled kernel: the bytes of a shared object (host) or of a device binary.
using Artifact = std::vector<std::byte>;

struct CompileFailure {
  std::string first_error;  // the compiler's first real line
  std::string advice;       // what to do about it
  std::string log;          // everything the compiler said
  std::string command;      // reproduces it in the work directory
};

class Compiler {
 public:
  virtual ~Compiler() = default;

  virtual CompilerDescription describe() = 0;

  virtual Language language() const = 0;

  /// What the code is made for: "sm_90a", or a host's instruction set. Part of the content key;
  /// equal strings mean that compiled kernels may be exchanged.
  virtual std::string architecture() = 0;

  /// Every property of the compiler that can change the artifact: version, flags, target. Not its
  /// path: the same compiler elsewhere has the same identity. Only for an available compiler.
  virtual std::string identity() = 0;

  /// Compiles inside work_directory, an empty directory of the caller's, and leaves source and
  /// headers there. A failed compilation is a result; Error(io) means that it could not be tried.
  virtual std::variant<Artifact, CompileFailure> compile(const KernelSource& source,
                                                         const std::string& work_directory) = 0;
};

}  // namespace trencadis::jit
