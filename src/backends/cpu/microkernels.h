// Which tables of inner loops this machine can run.
#pragma once

#include <span>

#include "cpu/microkernels.h"

namespace trencadis::cpu {

/// Every table that is compiled in and that this machine supports, best first. Empty on a machine
/// below the baseline (x86: SSE4, Arm: NEON).
std::span<const Microkernels* const> supported_microkernels();

}  // namespace trencadis::cpu
