// Shapes of tensors that hold more than one problem's.
#pragma once

#include <cstdint>
#include <vector>

#include "support/host_tensor.h"

namespace trencadis::testing {

/// The tensor's shape with another outermost extent.
inline std::vector<std::int64_t> with_extent(const HostTensor& tensor, std::int64_t extent) {
  const auto shape = tensor.whole().shape();
  std::vector<std::int64_t> result(shape.begin(), shape.end());
  result[0] = extent;
  return result;
}

}  // namespace trencadis::testing
