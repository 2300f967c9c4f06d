// Every hook, compiled at run time and run by the engine on each of its paths: the result equals
// the float64 reference with the hook's oracle, and is another one without it.
#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/compare.h"

namespace trencadis::testing {
namespace {

using reference::At;
using reference::Hooks;

struct Case {
  std::string name;
  std::string hook;  // as it is listed
  std::string body;  // the member
  Hooks oracle;
};

// Each depends on every coordinate that its hook is given.
Case query_case() {
  Hooks oracle;
  oracle.query = [](std::span<double> row, const At& at) {
    for (std::size_t d = 0; d + 1 < row.size(); d += 2) std::swap(row[d], row[d + 1]);
    for (double& x : row)
      x *= 1.0 + 0.1 * static_cast<double>((at.row + 2 * at.qo_head + 3 * at.request) % 5);
  };
  return {"query", "kQueryTransform", R"(
  template <class P, class Row>
  TRENCADIS_FN static float query_transform(const P& p, const Row& row, int dim,
                                            const RowCoord& at) {
    const int turn = (at.qo_pos + 2 * at.qo_head + 3 * at.request) % 5;
    return row[dim ^ 1] * (1.0f + p.tenth * static_cast<float>(turn));
  })",
          oracle};
}

Case key_case() {
  Hooks oracle;
  oracle.key = [](std::span<double> row, const At& at) {
    for (double& x : row)
      x *= 1.0 - 0.1 * static_cast<double>((at.key + at.kv_head + at.request) % 7);
  };
  return {"key", "kKeyTransform", R"(
  template <class P, class Row>
  TRENCADIS_FN static float key_transform(const P& p, const Row& row, int dim,
                                          const KeyCoord& at) {
    const int turn = (at.kv_pos + at.kv_head + at.request) % 7;
    return row[dim] * (1.0f - p.tenth * static_cast<float>(turn));
  })",
          oracle};
}

Case value_case() {
  Hooks oracle;
  oracle.value = [](std::span<double> row, const At& at) {
    for (double& x : row) x += 0.1 * static_cast<double>((at.key + at.kv_head + at.request) % 7);
  };
  return {"value", "kValueTransform", R"(
  template <class P, class Row>
  TRENCADIS_FN static float value_transform(const P& p, const Row& row, int dim,
                                            const KeyCoord& at) {
    return row[dim] + p.tenth * static_cast<float>((at.kv_pos + at.kv_head + at.request) % 7);
  })",
          oracle};
}

Case logits_case() {
  Hooks oracle;
  oracle.logit = [](double s, const At& at) {
    return s * 0.5 + 0.1 * static_cast<double>((at.key + at.row + at.qo_head + at.request) % 9);
  };
  return {"logits", "kLogitsTransform", R"(
  template <class P>
  TRENCADIS_FN static float logits_transform(const P& p, float logit, const LogitCoord& at) {
    const int turn = (at.kv_pos + at.qo_pos + at.qo_head + at.request) % 9;
    return logit * 0.5f + p.tenth * static_cast<float>(turn);
  })",
          oracle};
}

/// M4: hides keys by parity, by head and by request, and all keys of some rows.
Case mask_case() {
  Hooks oracle;
  oracle.mask = [](const At& at) {
    return (at.key + at.qo_head) % 2 == 0 && at.request != 3 && at.row % 11 != 10;
  };
  return {"mask", "kLogitsMask", R"(
  template <class P>
  TRENCADIS_FN static bool logits_mask(const P&, const LogitCoord& at) {
    return ((at.kv_pos + at.qo_head) % 2 == 0) & (at.request != 3) & (at.qo_pos % 11 != 10);
  })",
          oracle};
}

Case output_case() {
  Hooks oracle;
  oracle.output = [](std::span<double> row, const At& at) {
    for (std::size_t d = 0; d < row.size(); ++d)
      row[d] = row[d] * 2.0 + 0.1 * static_cast<double>((at.token + at.qo_head) % 5) +
               0.01 * static_cast<double>(d);
  };
  return {"output", "kOutputTransform", R"(
  template <class P>
  TRENCADIS_FN static float output_transform(const P& p, float value, int dim,
                                             const RowCoord& at) {
    return value * 2.0f + p.tenth * static_cast<float>((at.qo_token + at.qo_head) % 5) +
           0.01f * static_cast<float>(dim);
  })",
          oracle};
}

std::vector<Case> cases() {
  return {query_case(), key_case(), value_case(), logits_case(), mask_case(), output_case()};
}

Variant variant_of(const Case& hook, bool use_softmax) {
  const std::string source = "struct Mine {\n  static constexpr HookSet hooks = " + hook.hook +
                             ";\n" + hook.body + "\n};\n";
  return variants::custom("Mine", source, {}, {{"tenth", 0.1}}, {}, use_softmax);
}

class EngineHooksTest : public ::testing::TestWithParam<Case> {
 protected:
  ProblemBuilder problem(bool use_softmax) const {
    ProblemBuilder builder;
    builder.heads(6, 2).dims(64, 48).page_size(8).variant(variant_of(GetParam(), use_softmax));
    builder.hooks(GetParam().oracle);
    return builder;
  }
};

TEST_P(EngineHooksTest, DecodeAndPrefillInOneBatch) {
  for (bool use_softmax : {true, false}) {
    const auto build = [&](Hooks hooks) {
      return problem(use_softmax)
          .dtype(DType::f32)
          .lengths({{1, 333}, {70, 129}, {1, 1}, {3, 40}, {0, 9}, {2, 0}})
          .hooks(std::move(hooks))
          .build();
    };
    const Problem hooked = build(GetParam().oracle);
    const Output output = run_engine(hooked);
    EXPECT_TRUE(close_to_reference(output, hooked)) << "use_softmax " << use_softmax;
    const Problem plain = build(Hooks{});
    EXPECT_FALSE(close_to_reference(output, plain)) << "the hook made no difference";
  }
}

TEST_P(EngineHooksTest, SplitKv) {
  PlanOptions split;
  split.split = SplitMode::fixed;
  split.fixed_split_tokens = 64;
  for (bool use_softmax : {true, false}) {
    const Problem problem_split =
        problem(use_softmax).dtype(DType::f32).lengths({{1, 500}, {20, 300}}).plan(split).build();
    EXPECT_TRUE(close_to_reference(run_engine(problem_split), problem_split))
        << "use_softmax " << use_softmax;
  }
}

TEST_P(EngineHooksTest, HalfPrecisionStorage) {
  for (DType dtype : {DType::bf16, DType::f16}) {
    const Problem half = problem(true).dtype(dtype).lengths({{1, 200}, {33, 90}}).build();
    EXPECT_TRUE(close_to_reference(run_engine(half), half)) << to_string(dtype);
  }
}

INSTANTIATE_TEST_SUITE_P(Hooks, EngineHooksTest, ::testing::ValuesIn(cases()),
                         [](const auto& hook) { return hook.param.name; });

}  // namespace
}  // namespace trencadis::testing
