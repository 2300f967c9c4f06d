// A listed hook that is not there under any name.
#include "variant/concept.h"

using namespace trencadis::variant;

struct Params {
  float strength;
};

struct Mine {
  static constexpr HookSet hooks = kLogitsTransform | kOutputTransform;
  template <class P>
  static float logits_transform(const P& p, float logit, const LogitCoord&) {
    return logit * p.strength;
  }
};

void instantiate() {
  check_variant<Mine, Params>();
}
