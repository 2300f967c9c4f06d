// The text that is compiled for a variant. Deterministic: equal variants give equal bytes.
#pragma once

#include <trencadis/variant.h>

#include "jit/kernel_source.h"

namespace trencadis::codegen {

/// The translation unit of a variant's functions for the CPU. It depends on the functor, its source
/// and the names and types of what it reads, and on nothing else: head dims, dtypes, scalar values
/// and bounds are arguments, and share one compiled kernel. Throws as validate().
jit::KernelSource host_source(const Variant& variant);

}  // namespace trencadis::codegen
