// Runs a problem on the engine or on the oracle.
#pragma once

#include <trencadis/attention.h>

#include <functional>
#include <vector>

#include "support/problem.h"

namespace trencadis::testing {

/// Widened to double, which keeps every bit but those of a NaN.
struct Output {
  std::vector<double> out;  // [nnz_q, H_q, D_vo]
  std::vector<double> lse;  // [nnz_q, H_q], natural log or as the spec says; empty: none
};

/// Equal bit for bit: +0 is not -0.
bool same_bits(const Output& a, const Output& b);

/// Rows [begin, end) of an output: what a request owns.
Output rows_of(const Output& output, const Problem& problem, std::int64_t begin, std::int64_t end);

/// Rows of the requests that have keys.
Output rows_with_keys(const Output& output, const Problem& problem);

/// What compute() makes of the problem's arguments, in a strided output that was poisoned first:
/// NaN in out, 123 in lse. Fails the test where an element outside of the output was written.
Output collect(const Problem& problem, const std::function<void(const RunArgs&)>& compute);

/// run() of the plan in force.
Output run(Attention& attention, const Problem& problem);

/// One Attention, one plan, one run; on the backend that the problem's config names.
Output run_engine(const Problem& problem);
/// On that one.
Output run_engine(const Problem& problem, BackendKind backend);

/// The float64 oracle over the same bytes, without the engine.
Output run_reference(const Problem& problem);
/// What run_reference() gives to reference::attention(); borrows from `problem`.
reference::Problem reference_problem(const Problem& problem);

}  // namespace trencadis::testing
