// Environment variables.
#pragma once

#include <cstdlib>
#include <string>

#include "base/check.h"

namespace trencadis::base {

/// The value; empty where the variable is not set. An empty value means the same as none.
inline std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

/// Whether the variable is 1; 0 means the same as none. Throws Error(invalid_argument) for others.
inline bool environment_flag(const char* name) {
  const std::string value = environment(name);
  check(value.empty() || value == "0" || value == "1", "{} is '{}', expected 1 or 0", name, value);
  return value == "1";
}

}  // namespace trencadis::base
