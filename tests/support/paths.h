#pragma once

#include <string>

namespace trencadis::testing {

std::string source_dir();
std::string binary_dir();

}  // namespace trencadis::testing
