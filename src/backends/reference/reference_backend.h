// The oracle as a backend: asked for by name, never chosen automatically.
#pragma once

#include <memory>

#include "engine/backend.h"

namespace trencadis::engine {

/// float64 loops on the calling thread. Runs every spec of stock variants.
std::unique_ptr<Backend> make_reference_backend();

}  // namespace trencadis::engine
