// A hook whose name is near a known one: it would be listed and never found.
#include "variant/concept.h"

using namespace trencadis::variant;

struct Params {
  float strength;
};

struct Mine {
  static constexpr HookSet hooks = kLogitsTransform;
  template <class P>
  static float logit_transform(const P& p, float logit, const LogitCoord&) {
    return logit * p.strength;
  }
};

void instantiate() {
  check_variant<Mine, Params>();
}
