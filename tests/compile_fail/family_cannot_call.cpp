// M6: a kernel family without value transforms, and a variant with one.
#include "variant/concept.h"

using namespace trencadis::variant;

struct Params {
  float strength;
};

struct Mine {
  static constexpr HookSet hooks = kValueTransform;
  template <class P, class Row>
  static float value_transform(const P& p, const Row& row, int dim, const KeyCoord&) {
    return row[dim] * p.strength;
  }
};

void instantiate() {
  check_variant<Mine, Params, kAllHooks & ~kValueTransform>();
}
