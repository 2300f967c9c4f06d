// A transform that computes in double.
#include "variant/concept.h"

using namespace trencadis::variant;

struct Params {
  float strength;
};

struct Mine {
  static constexpr HookSet hooks = kLogitsTransform;
  template <class P>
  static double logits_transform(const P& p, float logit, const LogitCoord&) {
    return static_cast<double>(logit) * static_cast<double>(p.strength);
  }
};

void instantiate() {
  check_variant<Mine, Params>();
}
