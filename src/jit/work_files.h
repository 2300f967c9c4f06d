// What a compiler leaves in its work directory, so that a failed compilation can be repeated there.
#pragma once

#include <filesystem>

#include "jit/kernel_source.h"

namespace trencadis::jit {

/// Where the headers lie in a work directory.
inline constexpr const char* kHeaderDirectory = "kernels";

/// Writes the source as `source_file` and its headers below kHeaderDirectory. Throws Error(io).
void write_sources(const KernelSource& source, const std::filesystem::path& directory,
                   const char* source_file);

}  // namespace trencadis::jit
