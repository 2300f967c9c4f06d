// CUDA C++ to device code, in this process: no toolkit, no host compiler, no file system.
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "jit/compiler.h"
#include "jit/nvrtc.h"

namespace trencadis::jit {

/// NVRTC for one architecture; artifacts are cubins, or PTX with its terminating zero for one of
/// PTX. It needs no device: kernels for any architecture can be compiled ahead of use.
///
/// The kernel headers are handed over from memory. <cstdint> and <cstddef>, which NVRTC does not
/// have, come with the compiler; nothing else of a standard library is there. A source that
/// includes a file of this machine is refused: it would not be in the content key.
///
/// Looks for NVRTC on first use and remembers it. Safe for any number of threads.
class NvrtcCompiler final : public Compiler {
 public:
  /// architecture: a name of ptxas, "sm_90a", or of PTX, "compute_80". One that this NVRTC does not
  /// know fails to compile.
  explicit NvrtcCompiler(std::string architecture) : architecture_(std::move(architecture)) {}

  CompilerDescription describe() override;
  Language language() const override { return Language::cuda_cpp; }
  std::string architecture() override { return architecture_; }
  std::string identity() override;
  /// Compiles in the calling thread, without a limit of time: NVRTC cannot be interrupted.
  std::variant<Artifact, CompileFailure> compile(const KernelSource& source,
                                                 const std::string& work_directory) override;

 private:
  const NvrtcSearch& found();

  std::string architecture_;
  std::mutex mutex_;  // guards the search
  std::optional<NvrtcSearch> found_;
};

}  // namespace trencadis::jit
