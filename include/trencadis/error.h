// One error type for the whole engine. The kind tells a caller what to do; the text names the
// argument, the value that came and what was expected.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace trencadis {

enum class ErrorKind {
  invalid_argument,  // a value, shape, stride or length is wrong; mend the call
  type_mismatch,     // a dtype or device is not the one the spec names
  not_supported,     // no backend here can run it; the text says why and what is supported
  out_of_capacity,   // a limit, a workspace or a pool is too small; the text gives both numbers
  compile_failed,    // run-time compilation failed; the text holds the compiler's first error
  device,            // a call into a device's driver failed; the text names it and its status
  io,                // a file or directory could not be read or written
  internal,          // a broken invariant of the engine itself; please report it
};

/// "invalid argument", "type mismatch", ...
std::string_view to_string(ErrorKind kind) noexcept;

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}

  ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace trencadis
