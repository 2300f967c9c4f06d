// The backends that this build knows, in the order in which `automatic` tries them.
#pragma once

#include <span>

#include "engine/backend.h"

namespace trencadis::engine {

struct RegisteredBackend {
  BackendKind kind;
  Backend* backend;  // null: not in this build
  const char* absent_reason;
};

/// CUDA, CPU, reference. Built on first use, never torn down.
std::span<const RegisteredBackend> registered_backends();

/// The backend that runs `spec`: the one that config.backend names, or the first that can.
/// Throws Error(not_supported) with every reason.
const RegisteredBackend& choose_backend(const AttentionSpec& spec, const AttentionConfig& config);

}  // namespace trencadis::engine
