// The CUDA backend: NVIDIA's GPUs through the driver and NVRTC, both opened when first asked for.
#pragma once

#include <memory>

#include "engine/backend.h"

namespace trencadis::engine {

std::unique_ptr<Backend> make_cuda_backend();

}  // namespace trencadis::engine
