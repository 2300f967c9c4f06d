// What a GPU's memory gives.
#pragma once

#include <trencadis/tensor_view.h>

#include <cstdint>

namespace trencadis::app {

/// 1e9 bytes a second that a copy of `bytes` from memory to memory moves, its reads and its writes
/// together, the best of five. Takes twice that memory, which is best chosen beyond any cache.
/// Throws Error(out_of_capacity | device), and what loading the kernels of copy_pages() throws.
double measure_copy_rate(Device device, DType dtype, std::int64_t bytes);

}  // namespace trencadis::app
