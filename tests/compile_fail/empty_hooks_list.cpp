// A list of nothing: no member would be called.
#include "variant/concept.h"

using namespace trencadis::variant;

struct Params {
  float strength;
};

struct Mine {
  static constexpr HookSet hooks = 0;
  template <class P>
  static float sharpen(const P& p, float logit, const LogitCoord&) {
    return logit * p.strength;
  }
};

void instantiate() {
  check_variant<Mine, Params>();
}
