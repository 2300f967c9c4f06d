// The same tests on another backend: TRENCADIS_TEST_BACKEND names it ("cuda"); the CPU where it is
// not set. Where no device is there the whole binary ends with kSkipped, which ctest counts as
// skipped.
#pragma once

#include <trencadis/attention.h>

#include "support/compare.h"

namespace trencadis::testing {

inline constexpr int kSkipped = 77;

BackendKind backend_under_test();

/// TRENCADIS_TEST_ONLY_COMPILES is set: the kernels that tests ask for are compiled, and what the
/// fake driver makes of them is close to any reference (tools/compile_gpu_test_kernels.sh).
bool only_compiles();

/// What the backend's kernels make of the rows of hooks.
HookedRows hooked_rows_under_test();

}  // namespace trencadis::testing
