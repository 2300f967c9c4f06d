// NVIDIA's run-time compiler, opened at run time: the library needs no CUDA to load.
#pragma once

#include "jit/compiler.h"

namespace trencadis::jit {

/// Whether libnvrtc is here, where, and which version. Looks where the dynamic linker looks, then
/// in $CUDA_HOME, $CUDA_PATH and /usr/local/cuda.
CompilerDescription describe_nvrtc();

}  // namespace trencadis::jit
