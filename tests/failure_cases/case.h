// What the failure cases share. They run on the backend under test through the public API.
#pragma once

#include <gtest/gtest.h>
#include <trencadis/trencadis.h>

#include <cmath>

#include "support/backend_under_test.h"
#include "support/compare.h"
#include "support/expect_error.h"
#include "support/problem.h"
#include "support/run.h"

namespace trencadis::testing {

/// An Attention with the problem's plan in force.
inline Attention planned(const Problem& problem) {
  Attention attention(problem.spec, problem.config);
  attention.plan(problem.plan_input());
  return attention;
}

/// Row (token, head) is +0 in every lane and its LSE is -inf.
inline ::testing::AssertionResult is_empty_row(const Output& output, const Problem& problem,
                                               std::int64_t token, std::int64_t head) {
  const auto row = static_cast<std::size_t>(token * problem.config.heads.qo + head);
  const auto dim = static_cast<std::size_t>(problem.spec.vo());
  for (std::size_t d = 0; d < dim; ++d) {
    const double x = output.out[row * dim + d];
    if (x != 0.0 || std::signbit(x)) {
      return ::testing::AssertionFailure()
             << "out[" << token << ", " << head << ", " << d << "] is " << x << ", expected +0";
    }
  }
  if (output.lse[row] != -kInf) {
    return ::testing::AssertionFailure()
           << "lse[" << token << ", " << head << "] is " << output.lse[row] << ", expected -inf";
  }
  return ::testing::AssertionSuccess();
}

inline PlanOptions split_every(std::int64_t tokens) {
  PlanOptions options;
  options.split = SplitMode::fixed;
  options.fixed_split_tokens = tokens;
  return options;
}

inline PlanOptions unsplit() {
  PlanOptions options;
  options.split = SplitMode::none;
  return options;
}

}  // namespace trencadis::testing
