// Stock variants, compiled into the library for each instruction set: no compiler is needed to use
// them.
#pragma once

#include <span>
#include <string_view>

#include "codegen/stock_components.h"
#include "cpu/variant_ops.h"

namespace trencadis::cpu {

/// The ops of every combination of stock functors, for one instruction set.
struct StockOps {
  std::string_view target;  // "AVX2"
  /// Arguments are in the slots of stock_params.h.
  const VariantOps& (*find)(codegen::ComponentSet components);
};

/// What is compiled in and this machine supports, best first.
std::span<const StockOps> supported_stock_ops();

}  // namespace trencadis::cpu
