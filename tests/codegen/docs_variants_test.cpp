// docs/variants.md stays true: its functions are compiled here as they stand, and what they make is
// run against the float64 reference.
#include <gtest/gtest.h>
#include <trencadis/trencadis.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>

#include "support/compare.h"

namespace {
#include "docs_variants.inc"  // the ```cpp blocks of the page, made by the build
}  // namespace

namespace trencadis::testing {
namespace {

/// Decode, prefill, an empty request and a row block of every tile class.
ProblemBuilder problem() {
  ProblemBuilder builder;
  builder.heads(6, 2)
      .dims(64)
      .page_size(16)
      .dtype(DType::f32)
      .lengths({{1, 300}, {37, 150}, {0, 20}, {5, 0}, {1, 1}});
  return builder;
}

void expect_right(const Problem& problem) {
  EXPECT_TRUE(close_to_reference(run_engine(problem), problem));
}

TEST(DocsVariants, FlashSigmoid) {
  reference::Hooks oracle;
  oracle.logit = [](double s, const reference::At&) { return 1.0 / (1.0 + std::exp(-(s - 5.0))); };
  expect_right(problem().variant(flash_sigmoid(-5.0)).hooks(oracle).build());
}

TEST(DocsVariants, DistanceBias) {
  constexpr int kMaxDistance = 31;
  HostTensor bias(DType::bf16, {6, kMaxDistance + 1});
  int i = 0;
  fill(bias.whole(), [&] { return std::sin(0.37 * i++) * 3.0; });
  const TensorView values = bias.whole();
  reference::Hooks oracle;
  oracle.logit = [values](double s, const reference::At& at) {
    const std::int64_t distance = std::clamp<std::int64_t>(at.position() - at.key, 0, kMaxDistance);
    return 4.0 * std::tanh(s / 4.0) + get(values, {at.qo_head, distance});
  };
  expect_right(problem()
                   .variant(distance_bias(kMaxDistance, 4.0))
                   .tensor("bias", std::move(bias))
                   .hooks(oracle)
                   .build());
}

TEST(DocsVariants, DilatedWindow) {
  reference::Hooks oracle;
  oracle.mask = [](const reference::At& at) { return (at.position() - at.key) % 3 == 0; };
  const Variant variant = dilated_window(3, 100);
  EXPECT_EQ(variant.bounds, (MaskBounds{100, 0}));
  expect_right(problem().variant(variant).hooks(oracle).build());
}

TEST(DocsVariants, NormalisedQueriesAndKeys) {
  const auto normalise = [](std::span<double> row, const reference::At&) {
    double sum = 0;
    for (double x : row) sum += x * x;
    const double norm = std::sqrt(sum / static_cast<double>(row.size()) + 1e-6);
    for (double& x : row) x /= norm;
  };
  reference::Hooks oracle;
  oracle.query = normalise;
  oracle.key = normalise;
  expect_right(problem().variant(qk_norm()).hooks(oracle).build());
}

}  // namespace
}  // namespace trencadis::testing
