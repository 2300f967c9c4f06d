// The list itself is missing.
#include "variant/concept.h"

using namespace trencadis::variant;

struct Params {
  float strength;
};

struct Mine {
  template <class P>
  static float logits_transform(const P& p, float logit, const LogitCoord&) {
    return logit * p.strength;
  }
};

void instantiate() {
  check_variant<Mine, Params>();
}
