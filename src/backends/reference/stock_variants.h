// The stock variants once more, in float64 and by name, independent of the kernels' functors.
#pragma once

#include <trencadis/variant.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/reference/attention.h"

namespace trencadis::reference {

/// "Chain<Rope, SoftCap>" -> {"Rope", "SoftCap"}; "SoftCap" -> {"SoftCap"}.
std::vector<std::string> components(std::string_view functor);

/// "" where every component is a stock functor and the variant brings no source, else why not.
std::string unsupported_reason(const Variant& variant);

/// The hooks of a stock variant. tensors: data of the variant's extra tensors in declared order,
/// borrowed for as long as the hooks live; scalars likewise, empty: the variant's values.
/// Throws Error(not_supported | invalid_argument).
Hooks stock_hooks(const Variant& variant, std::span<const void* const> tensors,
                  std::span<const double> scalars = {});

}  // namespace trencadis::reference
