#pragma once

#include <span>
#include <string_view>

namespace trencadis::jit {

// One header of kernels/, as it was when the library was built.
struct EmbeddedFile {
  std::string_view path;  // relative to kernels/, for example "variant/hooks.h"
  std::string_view text;
};

// Every kernel header, sorted by path. The build generates the definition, so that a kernel can be
// compiled at run time on a machine that has the library and not the source tree.
std::span<const EmbeddedFile> embedded_kernel_headers();

// Those that a kernel for the host, or for a CUDA device, may include: a change of a header of one
// leaves the compiled kernels of the other valid.
std::span<const EmbeddedFile> host_kernel_headers();
std::span<const EmbeddedFile> device_kernel_headers();

}  // namespace trencadis::jit
