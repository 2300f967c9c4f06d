// Environment variables.
#pragma once

#include <cstdlib>
#include <string>

namespace trencadis::base {

/// The value; empty where the variable is not set. An empty value means the same as none.
inline std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

}  // namespace trencadis::base
