// A hook that is there and not listed: it would never be called.
#include "variant/concept.h"

using namespace trencadis::variant;

struct Params {
  float strength;
};

struct Mine {
  static constexpr HookSet hooks = kLogitsTransform;
  template <class P>
  static float logits_transform(const P& p, float logit, const LogitCoord&) {
    return logit * p.strength;
  }
  template <class P>
  static bool logits_mask(const P&, const LogitCoord& at) {
    return at.kv_pos > 0;
  }
};

void instantiate() {
  check_variant<Mine, Params>();
}
