// How the command ends. Scripts may rely on these.
#pragma once

#include <stdexcept>

namespace trencadis::app {

inline constexpr int kSuccess = 0;
inline constexpr int kFailure = 1;      // the engine, a file or the machine said no
inline constexpr int kUsage = 2;        // the command line is not one
inline constexpr int kWrongResult = 3;  // the work was done and its results are wrong

/// Ends the command with kWrongResult.
class WrongResult : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace trencadis::app
