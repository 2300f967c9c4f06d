// The CPU as a backend: the same plans and variants as on a GPU, with vectors and threads.
#pragma once

#include <memory>

#include "engine/backend.h"

namespace trencadis::engine {

std::unique_ptr<Backend> make_cpu_backend();

}  // namespace trencadis::engine
