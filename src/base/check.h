// Raising the one error type. Messages name the argument, the value and what was expected.
#pragma once

#include <fmt/format.h>
#include <trencadis/error.h>
#include <trencadis/tensor_view.h>

#include <string>
#include <utility>

/// A tensor in a message is its dtype, shape, strides and device, put into words only where the
/// message is.
template <>
struct fmt::formatter<trencadis::TensorView> : fmt::formatter<std::string> {
  template <class Context>
  auto format(const trencadis::TensorView& tensor, Context& context) const {
    return fmt::formatter<std::string>::format(tensor.describe(), context);
  }
};

namespace trencadis::base {

template <class... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(kind, fmt::format(text, std::forward<Args>(args)...));
}

/// For arguments: check(qo_indptr[0] == 0, "qo_indptr[0] is {}, expected 0", qo_indptr[0]).
template <class... Args>
void check(bool ok, fmt::format_string<Args...> text, Args&&... args) {
  if (!ok) [[unlikely]]
    fail(ErrorKind::invalid_argument, text, std::forward<Args>(args)...);
}

/// For the engine's own invariants.
template <class... Args>
void ensure(bool ok, fmt::format_string<Args...> text, Args&&... args) {
  if (!ok) [[unlikely]]
    fail(ErrorKind::internal, text, std::forward<Args>(args)...);
}

}  // namespace trencadis::base
