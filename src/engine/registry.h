// The backends that this build knows, in the order in which `automatic` tries them.
#pragma once

#include <span>

#include "engine/backend.h"

namespace trencadis::engine {

struct RegisteredBackend {
  BackendKind kind;
  Backend* backend;
  /// Why it runs only where it is asked for by name; "": it may be chosen.
  const char* unchosen_reason;
};

/// CUDA, CPU, reference. Built on first use, never torn down.
std::span<const RegisteredBackend> registered_backends();

/// The backend that runs `spec`: the one that config.backend names, or the first that can.
/// Throws Error(not_supported) with every reason.
const RegisteredBackend& choose_backend(const AttentionSpec& spec, const AttentionConfig& config);

}  // namespace trencadis::engine
