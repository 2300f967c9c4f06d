// Turns a mistake in a variant into an error that says what to do. `check_variant<V, P, kFamily>()`
// is called by whatever instantiates a kernel; each rule is one static_assert in words.
//
// A hook that is not called is worse than one that does not compile: the rules find hooks that are
// listed and missing, present and not listed, near a known name, of a wrong signature, and hooks
// that the kernel family cannot call.
#pragma once

#include "variant/chain.h"
#include "variant/hooks.h"

namespace trencadis::variant {
namespace detail {

template <class A, class B>
inline constexpr bool kSame = false;
template <class A>
inline constexpr bool kSame<A, A> = true;

/// A row as a hook must expect it: indexable, with a size, and not a pointer.
struct AnyRow {
  TRENCADIS_FN float operator[](int) const { return 0.0f; }
  TRENCADIS_FN int size() const { return 0; }
};

// What each hook is called with. That the call compiles and that its result type is right are two
// concepts, so that the two mistakes have messages of their own.
#define TRENCADIS_HOOK_CALL(hook, ...)                                                  \
  template <class V, class P>                                                           \
  concept calls_##hook =                                                                \
      requires(const P& p, float x, int dim, const AnyRow& row, const RowCoord& row_at, \
               const KeyCoord& key_at, const LogitCoord& logit_at) {                    \
    V::hook(__VA_ARGS__);                                                               \
  };                                                                                    \
  template <class V, class P, class Result>                                             \
  concept returns_##hook =                                                              \
      requires(const P& p, float x, int dim, const AnyRow& row, const RowCoord& row_at, \
               const KeyCoord& key_at, const LogitCoord& logit_at) {                    \
    requires kSame<decltype(V::hook(__VA_ARGS__)), Result>;                             \
  };
TRENCADIS_HOOK_CALL(query_transform, p, row, dim, row_at)
TRENCADIS_HOOK_CALL(key_transform, p, row, dim, key_at)
TRENCADIS_HOOK_CALL(value_transform, p, row, dim, key_at)
TRENCADIS_HOOK_CALL(logits_transform, p, x, logit_at)
TRENCADIS_HOOK_CALL(logits_mask, p, logit_at)
TRENCADIS_HOOK_CALL(output_transform, p, x, dim, row_at)
#undef TRENCADIS_HOOK_CALL

// Whether V has any member of a name, be it data, a function or a template: a class that inherits
// the name from two bases cannot use it unqualified.
#define TRENCADIS_MEMBER_PROBE(name)          \
  struct Owns_##name {                        \
    int name;                                 \
  };                                          \
  template <class V>                          \
  struct Inherits_##name : V, Owns_##name {}; \
  template <class V>                          \
  concept has_##name = !requires {            \
    &Inherits_##name<V>::name;                \
  };

// Hooks, and names near them: other spellings of a careful author, and the names of the papers.
#define TRENCADIS_NEAR_MISSES(rule)                                                               \
  rule(q_transform, query_transform) rule(query_transforms, query_transform) rule(                \
      transform_query, query_transform) rule(queryTransform, query_transform)                     \
      rule(QueryTransform, query_transform) rule(k_transform, key_transform) rule(                \
          key_transforms, key_transform) rule(transform_key, key_transform)                       \
          rule(keyTransform, key_transform) rule(KeyTransform, key_transform) rule(               \
              v_transform, value_transform) rule(value_transforms, value_transform)               \
              rule(transform_value, value_transform) rule(valueTransform, value_transform) rule(  \
                  ValueTransform, value_transform) rule(logit_transform, logits_transform)        \
                  rule(logits_transforms, logits_transform) rule(                                 \
                      transform_logits, logits_transform) rule(logitsTransform, logits_transform) \
                      rule(LogitsTransform, logits_transform)                                     \
                          rule(LogitTransform, logits_transform) rule(logit_mask, logits_mask)    \
                              rule(logits_masks, logits_mask) rule(mask_logits, logits_mask)      \
                                  rule(logitsMask, logits_mask) rule(LogitsMask, logits_mask)     \
                                      rule(LogitMask, logits_mask)                                \
                                          rule(output_transforms, output_transform)               \
                                              rule(transform_output, output_transform)            \
                                                  rule(outputTransform, output_transform)         \
                                                      rule(OutputTransform, output_transform)

#define TRENCADIS_PROBE_NEAR_MISS(misspelt, hook) TRENCADIS_MEMBER_PROBE(misspelt)
TRENCADIS_MEMBER_PROBE(query_transform)
TRENCADIS_MEMBER_PROBE(key_transform)
TRENCADIS_MEMBER_PROBE(value_transform)
TRENCADIS_MEMBER_PROBE(logits_transform)
TRENCADIS_MEMBER_PROBE(logits_mask)
TRENCADIS_MEMBER_PROBE(output_transform)
TRENCADIS_NEAR_MISSES(TRENCADIS_PROBE_NEAR_MISS)
#undef TRENCADIS_PROBE_NEAR_MISS
#undef TRENCADIS_MEMBER_PROBE

template <class V>
concept has_hooks = requires {
  V::hooks;
};

/// The rules for one functor; each assertion is worded for its author.
template <class V, class P, HookSet kFamily>
struct FunctorCheck {
  static_assert(kSame<decltype(V::hooks), const HookSet>,
                "variant: `hooks` is not a HookSet: write `static constexpr HookSet hooks = ...;`");
  static_assert((V::hooks & ~kAllHooks) == 0,
                "variant: `hooks` holds bits that name no hook: combine the k... constants with |");
  static_assert(V::hooks != 0,
                "variant: `hooks` lists nothing, so that no member would be called; a variant that "
                "changes nothing is Chain<>");

  // First, because a misspelt hook breaks the rules below too, and this says more.
#define TRENCADIS_REFUSE_NEAR_MISS(misspelt, hook)                                 \
  static_assert(!has_##misspelt<V>, "variant: the struct has a member `" #misspelt \
                                    "`, which is no hook: did you mean `" #hook "`?");
  TRENCADIS_NEAR_MISSES(TRENCADIS_REFUSE_NEAR_MISS)
#undef TRENCADIS_REFUSE_NEAR_MISS
#undef TRENCADIS_NEAR_MISSES

#define TRENCADIS_CHECK_HOOK(hook, constant, result, signature)                              \
  static_assert(!kHasHook<V, constant> || has_##hook<V>,                                     \
                "variant: `hooks` lists " #constant ", but the struct has no member `" #hook \
                "`: is it missing or misspelt?");                                            \
  static_assert(kHasHook<V, constant> || !has_##hook<V>,                                     \
                "variant: the struct has a member `" #hook                                   \
                "` that `hooks` does not list, so that "                                     \
                "it would never be called: add " #constant " to `hooks`");                   \
  static_assert(!kHasHook<V, constant> || !has_##hook<V> || calls_##hook<V, P>,              \
                "variant: `" #hook                                                           \
                "` cannot be called: it must be public, static, and `" signature "`");       \
  static_assert(!calls_##hook<V, P> || returns_##hook<V, P, result>,                         \
                "variant: `" #hook "` must return " #result ", as in `" signature "`");      \
  static_assert((V::hooks & constant & ~kFamily) == 0,                                       \
                "variant: this kernel family cannot call `" #hook                            \
                "`; choose another family or "                                               \
                "leave the hook out");

  TRENCADIS_CHECK_HOOK(query_transform, kQueryTransform, float,
                       "template <class P, class Row> float query_transform(const P& p, const Row& "
                       "row, int dim, const RowCoord& at)")
  TRENCADIS_CHECK_HOOK(key_transform, kKeyTransform, float,
                       "template <class P, class Row> float key_transform(const P& p, const Row& "
                       "row, int dim, const KeyCoord& at)")
  TRENCADIS_CHECK_HOOK(value_transform, kValueTransform, float,
                       "template <class P, class Row> float value_transform(const P& p, const Row& "
                       "row, int dim, const KeyCoord& at)")
  TRENCADIS_CHECK_HOOK(logits_transform, kLogitsTransform, float,
                       "template <class P> float logits_transform(const P& p, float logit, const "
                       "LogitCoord& at)")
  TRENCADIS_CHECK_HOOK(logits_mask, kLogitsMask, bool,
                       "template <class P> bool logits_mask(const P& p, const LogitCoord& at)")
  TRENCADIS_CHECK_HOOK(
      output_transform, kOutputTransform, float,
      "template <class P> float output_transform(const P& p, float value, int dim, "
      "const RowCoord& at)")
#undef TRENCADIS_CHECK_HOOK
};

/// Without the list every other rule would fail too, and drown the one message that helps.
template <class V, class P, HookSet kFamily, bool kHasList>
inline constexpr bool kRulesChecked = false;
template <class V, class P, HookSet kFamily>
inline constexpr bool kRulesChecked<V, P, kFamily, true> = sizeof(FunctorCheck<V, P, kFamily>) != 0;

template <class V, class P, HookSet kFamily>
struct VariantCheck {
  static_assert(__is_class(V) && !__is_final(V),
                "variant: a functor is a struct of static hooks, and not final");
  static_assert(has_hooks<V>,
                "variant: the struct has no `hooks`: list what it defines, for example `static "
                "constexpr HookSet hooks = kLogitsTransform | kLogitsMask;`");
  static constexpr bool kChecked = kRulesChecked<V, P, kFamily, has_hooks<V>>;
};

template <class... Functors, class P, HookSet kFamily>
struct VariantCheck<Chain<Functors...>, P, kFamily> {
  static constexpr bool kChecked = (VariantCheck<Functors, P, kFamily>::kChecked && ... && true);
};

}  // namespace detail

/// Holds where V is a functor, or a Chain of functors, that may be compiled with the parameters P
/// into a kernel family that can call the hooks of kFamily. Where it does not hold, compilation
/// stops with the reason.
template <class V, class P, HookSet kFamily = kAllHooks>
TRENCADIS_FN constexpr void check_variant() {
  static_assert(detail::VariantCheck<V, P, kFamily>::kChecked);
}

}  // namespace trencadis::variant
