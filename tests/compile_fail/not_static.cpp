// A hook that needs an object.
#include "variant/concept.h"

using namespace trencadis::variant;

struct Params {
  float strength;
};

struct Mine {
  static constexpr HookSet hooks = kLogitsMask;
  template <class P>
  bool logits_mask(const P&, const LogitCoord& at) const {
    return at.kv_pos > 0;
  }
};

void instantiate() {
  check_variant<Mine, Params>();
}
