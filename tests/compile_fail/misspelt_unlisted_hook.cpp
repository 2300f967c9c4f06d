// A name of the papers, beside a hook that is right.
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
  static bool LogitsMask(const P&, const LogitCoord& at) {
    return at.kv_pos > 0;
  }
};

void instantiate() {
  check_variant<Mine, Params>();
}
