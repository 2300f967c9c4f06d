#pragma once

#include <algorithm>
#include <cstdlib>

namespace trencadis::testing {

// How many rounds a randomised test runs: `rounds` times TRENCADIS_TEST_SCALE, at least one. A
// sanitizer build runs with a scale below 1, a long soak with one above.
inline int scaled(int rounds) {
  const char* scale = std::getenv("TRENCADIS_TEST_SCALE");
  const double factor = scale == nullptr ? 1.0 : std::strtod(scale, nullptr);
  return std::max(1, static_cast<int>(rounds * factor));
}

}  // namespace trencadis::testing
