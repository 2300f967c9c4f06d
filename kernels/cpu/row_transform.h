// Query, key and value transforms over a whole row in place. Hooks are written for one element; a
// functor whose elements share work (Rope: one angle turns a pair) has its row form here.
#pragma once

#include <cstddef>

#include "variant/stock.h"

namespace trencadis::cpu {

/// The longest row that a variant may transform: elements of a head.
inline constexpr int kMaxVariantDim = 1024;

/// A row before the transform.
struct SourceRow {
  const float* elements;
  int dim;
  TRENCADIS_FN float operator[](int d) const { return elements[d]; }
  TRENCADIS_FN int size() const { return dim; }
};

/// Element by element, from a copy: a hook may read the whole row for each element that it makes.
template <class Element>
TRENCADIS_FN void rewrite_row(float* row, int dim, Element element) {
  float copy[kMaxVariantDim];
  for (int d = 0; d < dim; ++d) copy[d] = row[d];
  const SourceRow source{copy, dim};
  for (int d = 0; d < dim; ++d) row[d] = element(source, d);
}

template <class V>
struct RowTransform {
  template <class P>
  TRENCADIS_FN static void query(const P& p, float* row, int dim, const variant::RowCoord& at) {
    if constexpr (variant::kHasHook<V, variant::kQueryTransform>)
      rewrite_row(row, dim, [&](const SourceRow& source, int d) {
        return V::query_transform(p, source, d, at);
      });
  }
  template <class P>
  TRENCADIS_FN static void key(const P& p, float* row, int dim, const variant::KeyCoord& at) {
    if constexpr (variant::kHasHook<V, variant::kKeyTransform>)
      rewrite_row(row, dim, [&](const SourceRow& source, int d) {
        return V::key_transform(p, source, d, at);
      });
  }
  template <class P>
  TRENCADIS_FN static void value(const P& p, float* row, int dim, const variant::KeyCoord& at) {
    if constexpr (variant::kHasHook<V, variant::kValueTransform>)
      rewrite_row(row, dim, [&](const SourceRow& source, int d) {
        return V::value_transform(p, source, d, at);
      });
  }
};

/// Each functor on what the one before it left.
template <class... Functors>
struct RowTransform<variant::Chain<Functors...>> {
  template <class P>
  TRENCADIS_FN static void query(const P& p, float* row, int dim, const variant::RowCoord& at) {
    (RowTransform<Functors>::query(p, row, dim, at), ...);
  }
  template <class P>
  TRENCADIS_FN static void key(const P& p, float* row, int dim, const variant::KeyCoord& at) {
    (RowTransform<Functors>::key(p, row, dim, at), ...);
  }
  template <class P>
  TRENCADIS_FN static void value(const P& p, float* row, int dim, const variant::KeyCoord& at) {
    (RowTransform<Functors>::value(p, row, dim, at), ...);
  }
};

template <>
struct RowTransform<variant::Rope> {
  template <class P>
  TRENCADIS_FN static void query(const P& p, float* row, int dim, const variant::RowCoord& at) {
    rotate(p, row, dim, variant::Rope::position(p, at));
  }
  template <class P>
  TRENCADIS_FN static void key(const P& p, float* row, int dim, const variant::KeyCoord& at) {
    rotate(p, row, dim, variant::Rope::position(p, at));
  }
  template <class P>
  TRENCADIS_FN static void value(const P&, float*, int, const variant::KeyCoord&) {}

 private:
  template <class P>
  TRENCADIS_FN static void rotate(const P& p, float* row, int dim, int position) {
    const int half = variant::Rope::rotary_dim(p, dim) / 2;
    const float* inv_freq = p.rope_inv_freq;
    // Angles apart from the rotation: their loop is the same for both styles, and vectorises.
    float cosines[kMaxVariantDim / 2];
    float sines[kMaxVariantDim / 2];
    for (int i = 0; i < half; ++i) {
      const variant::Rotation turn = variant::rotation(position, inv_freq[i]);
      cosines[i] = turn.cos;
      sines[i] = turn.sin;
    }
    if (p.rope_interleaved != 0.0f) {
      for (int i = 0; i < half; ++i) turn_pair(row[2 * i], row[2 * i + 1], cosines[i], sines[i]);
    } else {
      for (int i = 0; i < half; ++i) turn_pair(row[i], row[half + i], cosines[i], sines[i]);
    }
  }

  TRENCADIS_FN static void turn_pair(float& first, float& second, float cos, float sin) {
    const float x = first;
    const float y = second;
    first = x * cos - y * sin;
    second = y * cos + x * sin;
  }
};

}  // namespace trencadis::cpu
