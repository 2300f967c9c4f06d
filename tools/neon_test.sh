#!/usr/bin/env bash
# Builds the test of the CPU microkernels for 64-bit Arm and runs it under emulation, on any machine:
#
#   apt-get install g++-aarch64-linux-gnu qemu-user-static libgtest-dev
#   tools/neon_test.sh [BUILD_DIR]
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-build/neon}
mkdir -p "$out/include"

# Headers that do not depend on the machine are taken from this one.
for name in hwy fmt gtest dlpack; do ln -sfn "/usr/include/$name" "$out/include/$name"; done
# Highway's library is not installed for the other architecture; this is all that is asked of it.
cat > "$out/highway.cpp" <<'CPP'
#include <hwy/targets.h>
namespace hwy {
int64_t SupportedTargets() { return HWY_NEON; }
void Abort(const char*, int, const char*, ...) { __builtin_abort(); }
}  // namespace hwy
CPP

compile() { aarch64-linux-gnu-g++ -std=c++20 -O2 -march=armv8-a+crypto -DFMT_HEADER_ONLY "$@"; }
compile -I"$out/include" -Iinclude -Ikernels -Isrc -Itests -I/usr/src/googletest/googletest -static \
  src/backends/cpu/microkernels.cpp tests/unit/backends_cpu/microkernels_test.cpp "$out/highway.cpp" \
  /usr/src/googletest/googletest/src/gtest-all.cc /usr/src/googletest/googletest/src/gtest_main.cc \
  -o "$out/cpu_microkernels_test" -lpthread
qemu-aarch64-static "$out/cpu_microkernels_test"
