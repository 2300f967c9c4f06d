// What a compiler is given: text that stands on the embedded kernel headers, and what the loaded
// kernel must export. Whoever generates a kernel makes one of these; this room only compiles it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "jit/embedded.h"

namespace trencadis::jit {

enum class Language : std::uint8_t { host_cpp, cuda_cpp };

constexpr std::string_view to_string(Language language) {
  return language == Language::host_cpp ? "C++" : "CUDA C++";
}

struct KernelSource {
  /// For people: messages, `trencadis cache list`, file names. Not part of the content key.
  std::string name;
  Language language = Language::host_cpp;
  /// One translation unit. It includes kernel headers by their path below kernels/:
  /// #include "variant/hooks.h".
  std::string text;
  /// Symbols (C names) that the kernel exports. Checked when it is loaded: device code by whoever
  /// loads it into a context.
  std::vector<std::string> symbols;
  /// Version of what those symbols mean. Part of the content key.
  std::uint32_t abi = 0;
  /// The shell command that puts this kernel into the cache. An error quotes it where the kernel is
  /// missing and cannot be compiled.
  std::string prebuild_command;
  /// The headers that `text` may include. All of them are part of the content key.
  std::span<const EmbeddedFile> headers = host_kernel_headers();
};

}  // namespace trencadis::jit
