#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace trencadis::app {

/// Nanoseconds since 1970 of "YYYY-MM-DD hh:mm:ss[.fraction][Z|+hh:mm|-hh:mm]" (a 'T' may stand for
/// the space). Digits of the fraction beyond nanoseconds are dropped. Nothing where the text is
/// anything else or the date does not exist.
std::optional<std::int64_t> parse_timestamp(std::string_view text);

}  // namespace trencadis::app
