// When is an output right? Its error against float64 may be a small multiple of the error that
// plain low-precision arithmetic makes on the same bytes; where the oracle has NaN or infinity, so
// must it.
#pragma once

#include <gtest/gtest.h>

#include "support/run.h"

namespace trencadis::testing {

/// The exact result and how far from it each element may be.
struct Expected {
  Output exact;
  Output tolerance;
};

/// What becomes of a query, key or value row that a hook has made.
enum class HookedRows {
  float32,  // it stays in float32
  rounded,  // it is rounded to the tensor's dtype, since matrix units take no other
};

/// Low-precision arithmetic: logits, weights and sums in float32, weights rounded to the KV dtype,
/// the output rounded to its dtype. An element may miss the exact one by three times what the worst
/// element of its row misses there, and by the float32 rounding that its logits' and values'
/// magnitudes allow for.
Expected expected(const Problem& problem, HookedRows rows);

::testing::AssertionResult is_close(const Output& actual, const Expected& expected,
                                    const Problem& problem);

/// is_close() to the oracle over the problem's bytes.
::testing::AssertionResult close_to_reference(const Output& actual, const Problem& problem,
                                              HookedRows rows);
/// With the rows of hooks as the backend under test has them.
Expected expected(const Problem& problem);
::testing::AssertionResult close_to_reference(const Output& actual, const Problem& problem);

}  // namespace trencadis::testing
