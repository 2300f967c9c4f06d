// What every builder asks of its input. Texts name the argument, the entry, and what was expected.
#pragma once

#include <trencadis/index_span.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace trencadis::sparsity {

/// BSR is int32 throughout; an int64 that does not fit is refused. Throws Error(invalid_argument).
std::int32_t narrow(std::string_view name, std::size_t index, std::int64_t value);

/// The rows of a CSR indptr: it starts at 0, never decreases and fits int32.
/// Throws Error(invalid_argument).
std::size_t check_indptr(std::string_view name, IndexSpan indptr);

/// Throws Error(invalid_argument) unless there is one entry a request.
void check_count(std::string_view name, std::size_t count, std::size_t requests,
                 std::string_view source);

/// A block dimension: 1 .. 2^31 - 1. Throws Error(invalid_argument).
void check_block(std::string_view name, std::int64_t value);

}  // namespace trencadis::sparsity
