// Composition of functors: Chain<A, B> applies A's transforms, then B's, and keeps a logit that
// both masks keep. Chain<> is plain attention.
#pragma once

#include "variant/hooks.h"

namespace trencadis::variant {

/// Whether V has any of the hooks. A variable and not a function: device code may not call a
/// constexpr function of the host.
template <class V, HookSet kHooks>
inline constexpr bool kHasHook = (V::hooks & kHooks) != 0;

template <class... Functors>
struct Chain;

template <>
struct Chain<> {
  static constexpr HookSet hooks = 0;

  template <class P, class Row>
  TRENCADIS_FN static float query_transform(const P&, const Row& row, int dim, const RowCoord&) {
    return row[dim];
  }
  template <class P, class Row>
  TRENCADIS_FN static float key_transform(const P&, const Row& row, int dim, const KeyCoord&) {
    return row[dim];
  }
  template <class P, class Row>
  TRENCADIS_FN static float value_transform(const P&, const Row& row, int dim, const KeyCoord&) {
    return row[dim];
  }
  template <class P>
  TRENCADIS_FN static float logits_transform(const P&, float logit, const LogitCoord&) {
    return logit;
  }
  template <class P>
  TRENCADIS_FN static bool logits_mask(const P&, const LogitCoord&) {
    return true;
  }
  template <class P>
  TRENCADIS_FN static float output_transform(const P&, float value, int, const RowCoord&) {
    return value;
  }
};

namespace detail {

/// Rows as the next functor of a chain sees them: each element is transformed when it is read.
template <class Functor, class P, class Row>
struct QueryTransformedRow {
  const P& p;
  const Row& row;
  const RowCoord& at;
  TRENCADIS_FN float operator[](int dim) const { return Functor::query_transform(p, row, dim, at); }
  TRENCADIS_FN int size() const { return row.size(); }
};

template <class Functor, class P, class Row>
struct KeyTransformedRow {
  const P& p;
  const Row& row;
  const KeyCoord& at;
  TRENCADIS_FN float operator[](int dim) const { return Functor::key_transform(p, row, dim, at); }
  TRENCADIS_FN int size() const { return row.size(); }
};

template <class Functor, class P, class Row>
struct ValueTransformedRow {
  const P& p;
  const Row& row;
  const KeyCoord& at;
  TRENCADIS_FN float operator[](int dim) const { return Functor::value_transform(p, row, dim, at); }
  TRENCADIS_FN int size() const { return row.size(); }
};

}  // namespace detail

template <class First, class... Rest>
struct Chain<First, Rest...> {
  static constexpr HookSet hooks = First::hooks | Chain<Rest...>::hooks;

  template <class P, class Row>
  TRENCADIS_FN static float query_transform(const P& p, const Row& row, int dim,
                                            const RowCoord& at) {
    if constexpr (kHasHook<First, kQueryTransform>) {
      const detail::QueryTransformedRow<First, P, Row> next{p, row, at};
      return Chain<Rest...>::query_transform(p, next, dim, at);
    } else {
      return Chain<Rest...>::query_transform(p, row, dim, at);
    }
  }

  template <class P, class Row>
  TRENCADIS_FN static float key_transform(const P& p, const Row& row, int dim, const KeyCoord& at) {
    if constexpr (kHasHook<First, kKeyTransform>) {
      const detail::KeyTransformedRow<First, P, Row> next{p, row, at};
      return Chain<Rest...>::key_transform(p, next, dim, at);
    } else {
      return Chain<Rest...>::key_transform(p, row, dim, at);
    }
  }

  template <class P, class Row>
  TRENCADIS_FN static float value_transform(const P& p, const Row& row, int dim,
                                            const KeyCoord& at) {
    if constexpr (kHasHook<First, kValueTransform>) {
      const detail::ValueTransformedRow<First, P, Row> next{p, row, at};
      return Chain<Rest...>::value_transform(p, next, dim, at);
    } else {
      return Chain<Rest...>::value_transform(p, row, dim, at);
    }
  }

  template <class P>
  TRENCADIS_FN static float logits_transform(const P& p, float logit, const LogitCoord& at) {
    if constexpr (kHasHook<First, kLogitsTransform>) logit = First::logits_transform(p, logit, at);
    return Chain<Rest...>::logits_transform(p, logit, at);
  }

  template <class P>
  TRENCADIS_FN static bool logits_mask(const P& p, const LogitCoord& at) {
    // A plain & and not &&: a load that is always made vectorises.
    bool keep = true;
    if constexpr (kHasHook<First, kLogitsMask>) keep = First::logits_mask(p, at);
    return keep & Chain<Rest...>::logits_mask(p, at);
  }

  template <class P>
  TRENCADIS_FN static float output_transform(const P& p, float value, int dim, const RowCoord& at) {
    if constexpr (kHasHook<First, kOutputTransform>)
      value = First::output_transform(p, value, dim, at);
    return Chain<Rest...>::output_transform(p, value, dim, at);
  }
};

}  // namespace trencadis::variant
