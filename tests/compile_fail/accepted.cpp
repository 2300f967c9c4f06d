// What the rules accept: the control of the tests that expect them to refuse.
#include <gtest/gtest.h>

#include "cpu/variant_tiles.h"

namespace {

using namespace trencadis::variant;

struct Params {
  float strength;
  static Params load(const trencadis::contract::VariantArgs& args) {
    return {static_cast<float>(args.scalars[0])};
  }
};

struct Every {
  static constexpr HookSet hooks = kAllHooks;
  template <class P, class Row>
  static float query_transform(const P& p, const Row& row, int dim, const RowCoord&) {
    return row[dim] * p.strength;
  }
  template <class P, class Row>
  static float key_transform(const P& p, const Row& row, int dim, const KeyCoord&) {
    return row[dim] * p.strength;
  }
  template <class P, class Row>
  static float value_transform(const P& p, const Row& row, int dim, const KeyCoord&) {
    return row[dim] * p.strength;
  }
  template <class P>
  static float logits_transform(const P& p, float logit, const LogitCoord&) {
    return logit * p.strength;
  }
  template <class P>
  static bool logits_mask(const P&, const LogitCoord& at) {
    return at.kv_pos > 0;
  }
  template <class P>
  static float output_transform(const P& p, float value, int, const RowCoord&) {
    return value * p.strength;
  }

  /// A helper of the author's own, near no hook's name.
  static float sharpen(float x) { return x * x; }
};

/// A hook that is no template, for the parameters of one kernel.
struct ForOneParams {
  static constexpr HookSet hooks = kLogitsTransform;
  static float logits_transform(const Params& p, float logit, const LogitCoord&) {
    return logit * p.strength;
  }
};

TEST(VariantConcept, AcceptsEveryHook) {
  check_variant<Every, Params>();
  check_variant<Chain<Every, ForOneParams>, Params>();
  check_variant<Chain<>, Params>();
  constexpr auto ops = trencadis::cpu::make_variant_ops<Chain<Every, ForOneParams>, Params>();
  EXPECT_EQ(ops.hooks, kAllHooks);
  EXPECT_TRUE(ops.query && ops.key && ops.value && ops.logits && ops.output);
}

TEST(VariantConcept, FamilyThatCallsWhatIsThere) {
  check_variant<ForOneParams, Params, kLogitsTransform>();
}

}  // namespace
