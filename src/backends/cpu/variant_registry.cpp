#include "backends/cpu/variant_registry.h"

#include <fmt/format.h>

#include "backends/cpu/builtin_variants.h"
#include "base/check.h"
#include "codegen/host_source.h"
#include "codegen/stock_components.h"
#include "codegen/validate.h"
#include "jit/jit.h"

namespace trencadis::cpu {
namespace {

/// For each slot of `stock`, the index of the tensor or scalar of that name among the declared
/// ones.
template <class Sources, class Stock, class Declared>
Sources match_slots(const Stock& stock, const Declared& declared, std::int8_t unused) {
  Sources sources;
  sources.fill(unused);
  for (std::size_t slot = 0; slot < stock.size(); ++slot) {
    const std::size_t i = codegen::index_of(declared, stock[slot].name);
    if (i < declared.size()) sources[slot] = static_cast<std::int8_t>(i);
  }
  return sources;
}

template <class Sources, class Declared>
Sources declared_order(const Declared& declared, std::int8_t unused) {
  Sources sources;
  sources.fill(unused);
  for (std::size_t i = 0; i < declared.size(); ++i) sources[i] = static_cast<std::int8_t>(i);
  return sources;
}

}  // namespace

contract::VariantArgs ResolvedVariant::arrange(
    const contract::VariantArgs& declared) const noexcept {
  contract::VariantArgs slots{};
  for (std::size_t slot = 0; slot < tensor_source_.size(); ++slot)
    if (tensor_source_[slot] != kUnused)
      slots.tensors[slot] = declared.tensors[tensor_source_[slot]];
  for (std::size_t slot = 0; slot < scalar_source_.size(); ++slot)
    if (scalar_source_[slot] != kUnused)
      slots.scalars[slot] = declared.scalars[scalar_source_[slot]];
  return slots;
}

std::optional<ResolvedVariant> find_builtin_variant(const Variant& variant) {
  codegen::validate(variant);
  if (!variant.source.empty() || supported_stock_ops().empty()) return std::nullopt;
  const std::optional<codegen::ComponentSet> components =
      codegen::parse_stock_chain(variant.functor);
  if (!components) return std::nullopt;

  const StockOps& best = supported_stock_ops().front();
  ResolvedVariant resolved;
  resolved.ops_ = &best.find(*components);
  resolved.origin_ = fmt::format("built in ({})", best.target);
  resolved.tensor_source_ = match_slots<decltype(resolved.tensor_source_)>(
      codegen::kStockTensors, variant.tensors, ResolvedVariant::kUnused);
  resolved.scalar_source_ = match_slots<decltype(resolved.scalar_source_)>(
      codegen::kStockScalars, variant.scalars, ResolvedVariant::kUnused);
  return resolved;
}

ResolvedVariant resolve_variant(const Variant& variant) {
  if (std::optional<ResolvedVariant> builtin = find_builtin_variant(variant)) return *builtin;

  const jit::LoadedKernel kernel = jit::load_host_kernel(codegen::host_source(variant));
  ResolvedVariant resolved;
  resolved.module_ = kernel.module;
  resolved.ops_ = kernel.module->object<VariantOps>(kVariantSymbol);
  resolved.origin_ = kernel.path;
  base::ensure(resolved.ops_->abi == kVariantAbi,
               "the compiled variant '{}' at {} has ABI {}, expected {}", variant.functor,
               kernel.path, resolved.ops_->abi, kVariantAbi);
  resolved.tensor_source_ =
      declared_order<decltype(resolved.tensor_source_)>(variant.tensors, ResolvedVariant::kUnused);
  resolved.scalar_source_ =
      declared_order<decltype(resolved.scalar_source_)>(variant.scalars, ResolvedVariant::kUnused);
  return resolved;
}

}  // namespace trencadis::cpu
