// The rules reach the parts of a Chain.
#include "variant/concept.h"

using namespace trencadis::variant;

struct Params {
  float strength;
};

struct Mine {
  static constexpr HookSet hooks = kLogitsTransform;
  template <class P>
  static float logits_transform(const P& p, float logit) {
    return logit * p.strength;
  }
};

void instantiate() {
  check_variant<Chain<Mine>, Params>();
}
