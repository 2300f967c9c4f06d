// The text of the CUDA kernels that no spec shapes: tokens and pages of a pool, the public merge,
// and the check of a plan. A translation unit for each pair of dtypes, in either family, and one
// for the check; deterministic.
#pragma once

#include <trencadis/attention_spec.h>
#include <trencadis/dtype.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "jit/kernel_source.h"

namespace trencadis::codegen {

/// Version of what these kernels take and of how they are launched.
inline constexpr std::uint32_t kCudaServiceAbi = 1;

/// Threads of a CTA. Grids are free: kernels walk their work in steps of the grid.
inline constexpr unsigned kServiceThreads = 256;

enum class ServiceFamily : std::uint8_t { pages, merges };

enum class Service : std::uint8_t {
  append,         // (contract::AppendParams), rows of `from` into pages of `to`
  gather,         // (contract::PagedTokens), pages of `from` into rows of `to`
  copy_pages,     // (contract::CopyPagesParams)
  merge_pair,     // (contract::MergeStatesParams), states of `from`, a result of `to`
  merge_stacked,  // the same
  merge_ragged,   // the same
};

constexpr ServiceFamily family_of(Service service) {
  return service <= Service::copy_pages ? ServiceFamily::pages : ServiceFamily::merges;
}

/// The kernels of a family, in the order of their numbers.
std::span<const Service> services_of(ServiceFamily family);

/// "trencadis_append_float32_bfloat16": profilers show it.
std::string service_symbol(Service service, DType from, DType to);

/// Throws Error(not_supported) where a dtype is not float32, float16 or bfloat16. architecture: for
/// the prebuild command; the text does not depend on it.
jit::KernelSource service_source(ServiceFamily family, DType from, DType to,
                                 std::string_view architecture);

/// The kernel of the debug mode: (contract::CheckPlanParams).
inline constexpr const char* kCheckPlanSymbol = "trencadis_check_plan";

/// `spec`: for the prebuild command, as `architecture`; the text depends on neither.
jit::KernelSource check_plan_source(const AttentionSpec& spec, std::string_view architecture);

}  // namespace trencadis::codegen
