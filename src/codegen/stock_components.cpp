#include "codegen/stock_components.h"

#include <algorithm>
#include <string>

#include "base/check.h"

namespace trencadis::codegen {
namespace {

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\n";
  const std::size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

/// The text between the brackets of "Chain<...>", or a single functor itself.
std::optional<std::string_view> chain_elements(std::string_view functor) {
  functor = trim(functor);
  constexpr std::string_view kChain = "Chain";
  if (!functor.starts_with(kChain)) return functor;
  const std::string_view rest = trim(functor.substr(kChain.size()));
  if (rest.size() < 2 || rest.front() != '<' || rest.back() != '>') return std::nullopt;
  return trim(rest.substr(1, rest.size() - 2));
}

bool declares(const Variant& variant, std::string_view tensor) {
  return std::any_of(variant.tensors.begin(), variant.tensors.end(),
                     [&](const ExtraTensor& extra) { return extra.name == tensor; });
}

void check_tensors(const Variant& variant, ComponentSet components) {
  for (const ExtraTensor& extra : variant.tensors) {
    const std::size_t slot = index_of(kStockTensors, extra.name);
    base::check(slot < kStockTensors.size() && (kStockTensors[slot].component & components) != 0,
                "variant tensor '{}' is not read by '{}'", extra.name, variant.functor);
    if (kStockTensors[slot].dtype != extra.dtype)
      base::fail(ErrorKind::type_mismatch, "variant tensor '{}' is {}, expected {}", extra.name,
                 to_string(extra.dtype), to_string(kStockTensors[slot].dtype));
  }
  const bool any_optional = std::any_of(
      kStockTensors.begin(), kStockTensors.end(),
      [&](const StockTensor& stock) { return stock.optional && declares(variant, stock.name); });
  for (const StockTensor& stock : kStockTensors) {
    const bool due = (stock.component & components) != 0 && (!stock.optional || any_optional);
    base::check(!due || declares(variant, stock.name),
                "variant tensor '{}' ({}) is missing: '{}' reads it", stock.name,
                to_string(stock.dtype), variant.functor);
  }
}

void check_scalars(const Variant& variant, ComponentSet components) {
  for (const ExtraScalar& extra : variant.scalars) {
    const std::size_t slot = index_of(kStockScalars, extra.name);
    base::check(slot < kStockScalars.size() && (kStockScalars[slot].component & components) != 0,
                "variant scalar '{}' is not read by '{}'", extra.name, variant.functor);
  }
  for (const StockScalar& stock : kStockScalars) {
    const bool due = (stock.component & components) != 0;
    const bool declared =
        std::any_of(variant.scalars.begin(), variant.scalars.end(),
                    [&](const ExtraScalar& extra) { return extra.name == stock.name; });
    base::check(!due || declared, "variant scalar '{}' is missing: '{}' reads it", stock.name,
                variant.functor);
  }
}

}  // namespace

bool is_stock_functor(std::string_view name) {
  return std::find(kStockComponents.begin(), kStockComponents.end(), name) !=
         kStockComponents.end();
}

std::optional<ComponentSet> parse_stock_chain(std::string_view functor) {
  const std::optional<std::string_view> elements = chain_elements(functor);
  if (!elements) return std::nullopt;
  ComponentSet components = 0;
  std::string_view rest = *elements;
  std::size_t next = 0;  // the first component that may still come
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    const std::string_view name = trim(rest.substr(0, comma));
    while (next < kStockComponents.size() && kStockComponents[next] != name) ++next;
    if (next == kStockComponents.size()) return std::nullopt;
    components |= ComponentSet{1} << next++;
    if (comma == std::string_view::npos) break;
    rest = trim(rest.substr(comma + 1));
    if (rest.empty()) return std::nullopt;  // a trailing comma
  }
  return components;
}

std::string stock_chain(ComponentSet components) {
  std::string text = "Chain<";
  for (std::size_t i = 0; i < kStockComponents.size(); ++i) {
    if ((components >> i & 1u) == 0) continue;
    if (text.back() != '<') text += ", ";
    text += kStockComponents[i];
  }
  return text + ">";
}

void check_stock_arguments(const Variant& variant, ComponentSet components) {
  check_tensors(variant, components);
  check_scalars(variant, components);
}

}  // namespace trencadis::codegen
