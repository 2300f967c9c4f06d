// NVIDIA's run-time compiler, opened at run time: the library needs no CUDA to load.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "jit/compiler.h"

namespace trencadis::jit {

/// The functions of libnvrtc that a compilation needs, with the types of its C interface: a status
/// is 0 or an nvrtcResult.
struct Nvrtc {
  using Program = struct NvrtcProgram*;

  // The values of nvrtcResult that this room tells apart.
  static constexpr int kSuccess = 0;
  static constexpr int kOutOfMemory = 1;
  static constexpr int kInvalidOption = 5;
  static constexpr int kCompilationFailed = 6;

  const char* (*error_string)(int status);
  int (*create_program)(Program* program, const char* text, const char* name, int num_headers,
                        const char* const* headers, const char* const* include_names);
  int (*destroy_program)(Program* program);
  int (*compile_program)(Program program, int num_options, const char* const* options);
  int (*log_size)(Program program, std::size_t* bytes);  // with the terminating zero
  int (*log)(Program program, char* text);
  int (*cubin_size)(Program program, std::size_t* bytes);
  int (*cubin)(Program program, char* bytes);
  int (*ptx_size)(Program program, std::size_t* bytes);  // with the terminating zero
  int (*ptx)(Program program, char* text);
};

struct NvrtcSearch {
  CompilerDescription description;
  std::optional<Nvrtc> functions;  // where description.available; valid for the process's life
};

/// What is tried, in order: where $TRENCADIS_LIBNVRTC is set, that file and no other; else
///   1. names without a directory, which the dynamic linker looks for;
///   2. lib64/ of $CUDA_HOME, $CUDA_PATH and /usr/local/cuda, and lib/ of $CONDA_PREFIX;
///   3. Python's packages nvidia-cuda-nvrtc and its like (nvidia/cu13/lib, nvidia/cuda_nvrtc/lib):
///      those installed under $VIRTUAL_ENV and $CONDA_PREFIX, and in the directories of
///      $PYTHONPATH.
/// In each place version 13 before 12; older ones know no C++20.
std::vector<std::string> nvrtc_candidates();

/// The first candidate that works.
NvrtcSearch find_nvrtc();

/// Whether libnvrtc is here, where, and which version; else what was searched.
CompilerDescription describe_nvrtc();

}  // namespace trencadis::jit
