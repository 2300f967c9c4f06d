// A row taken as a pointer: in a Chain it is what the functor before has made of it.
#include "variant/concept.h"

using namespace trencadis::variant;

struct Params {
  float strength;
};

struct Mine {
  static constexpr HookSet hooks = kQueryTransform;
  template <class P>
  static float query_transform(const P& p, const float* row, int dim, const RowCoord&) {
    return row[dim] * p.strength;
  }
};

void instantiate() {
  check_variant<Mine, Params>();
}
