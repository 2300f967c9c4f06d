// What a variant's names may be. They become C++ text, so everything that is not the user's own
// source is held to a small grammar: nothing can be smuggled in through a tensor's name.
#pragma once

#include <trencadis/attention_spec.h>

#include <string_view>

namespace trencadis::codegen {

/// A C++ identifier that is no keyword and not reserved to the implementation.
bool is_identifier(std::string_view name);

/// A type: a possibly qualified name, with template arguments that are types, integers or booleans.
bool is_type_expression(std::string_view text);

/// Names, counts, dtypes, bounds; for stock functors also that they get what they read. Throws
/// Error(invalid_argument | type_mismatch | not_supported) that names the variant's part.
void validate(const Variant& variant);

/// The same, and what a variant asks of the rest of a spec.
void validate(const AttentionSpec& spec);

}  // namespace trencadis::codegen
