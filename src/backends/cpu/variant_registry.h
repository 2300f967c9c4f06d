// From a variant to the functions that the CPU's main loop calls.
#pragma once

#include <trencadis/variant.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "contract/params.h"
#include "cpu/variant_ops.h"
#include "jit/loader.h"

namespace trencadis::cpu {

/// A variant's code, loaded. Copies share it.
class ResolvedVariant {
 public:
  const VariantOps& ops() const noexcept { return *ops_; }

  /// The arguments in the slots that ops() expects, from those in the variant's declared order.
  /// Once a run, not once a tile.
  contract::VariantArgs arrange(const contract::VariantArgs& declared) const noexcept;

  /// "built in (AVX2)", or the path of the compiled kernel.
  const std::string& origin() const noexcept { return origin_; }
  bool built_in() const noexcept { return module_ == nullptr; }

 private:
  friend std::optional<ResolvedVariant> find_builtin_variant(const Variant& variant);
  friend ResolvedVariant resolve_variant(const Variant& variant);

  static constexpr std::int8_t kUnused = -1;

  const VariantOps* ops_ = nullptr;
  std::shared_ptr<const jit::Module> module_;  // keeps ops_ alive; null for a built-in one
  std::string origin_;
  // Where each slot's value lies in the declared order.
  std::array<std::int8_t, contract::kMaxExtraTensors> tensor_source_{};
  std::array<std::int8_t, contract::kMaxExtraScalars> scalar_source_{};
};

/// The built-in code of a variant that is made of stock functors in their usual order; nullopt for
/// any other. Throws Error(invalid_argument | type_mismatch) where such a variant does not declare
/// what its functors read.
std::optional<ResolvedVariant> find_builtin_variant(const Variant& variant);

/// Built in, else compiled by the host compiler or taken from the cache. Throws as
/// find_builtin_variant, and Error(compile_failed | not_supported | io).
ResolvedVariant resolve_variant(const Variant& variant);

}  // namespace trencadis::cpu
