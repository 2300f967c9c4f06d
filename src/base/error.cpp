#include <trencadis/error.h>

namespace trencadis {

std::string_view to_string(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::invalid_argument:
      return "invalid argument";
    case ErrorKind::type_mismatch:
      return "type mismatch";
    case ErrorKind::not_supported:
      return "not supported";
    case ErrorKind::out_of_capacity:
      return "out of capacity";
    case ErrorKind::compile_failed:
      return "compile failed";
    case ErrorKind::device:
      return "device";
    case ErrorKind::io:
      return "io";
    case ErrorKind::internal:
      return "internal error";
  }
  return "unknown error";
}

}  // namespace trencadis
