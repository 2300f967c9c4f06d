// How the command reports what it cannot do: the engine's own error type, one line of text.
#pragma once

#include <fmt/format.h>
#include <trencadis/error.h>

#include <utility>

namespace trencadis::app {

template <class... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(kind, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace trencadis::app
