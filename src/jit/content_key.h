// The name of a compiled kernel is a hash of everything that went into it.
#pragma once

#include <string>

#include "jit/kernel_source.h"

namespace trencadis::jit {

struct ContentKey {
  /// Hash of text, headers, language and ABI: what was asked for, whoever compiles it.
  std::string source_key;
  /// source_key with the architecture and the compiler's identity: one artifact. 32 hex digits.
  std::string key;
};

/// Fields are length-prefixed, so that no two different lists of fields hash the same bytes.
ContentKey content_key(const KernelSource& source, const std::string& architecture,
                       const std::string& compiler_identity);

/// The first half alone, for a machine without a compiler.
std::string source_key(const KernelSource& source);

}  // namespace trencadis::jit
