// A mask that asks for a row where it is given a logit.
#include "variant/concept.h"

using namespace trencadis::variant;

struct Params {
  float strength;
};

struct Mine {
  static constexpr HookSet hooks = kLogitsMask;
  template <class P>
  static bool logits_mask(const P&, const RowCoord& at) {
    return at.qo_pos > 0;
  }
};

void instantiate() {
  check_variant<Mine, Params>();
}
