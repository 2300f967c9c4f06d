#!/usr/bin/env bash
# The small GPU tests under each tool of compute-sanitizer, which comes with a CUDA toolkit.
#
#   tools/compute_sanitizer.sh [BUILD] [gtest arguments...]     e.g. --gtest_filter='*Merges*'
set -euo pipefail

build=$(realpath "${1:-$(dirname "$0")/../build}")
shift || true

sanitizer=$(command -v compute-sanitizer || true)
for directory in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda; do
  [ -n "$sanitizer" ] && break
  for place in bin compute-sanitizer; do
    [ -x "$directory/$place/compute-sanitizer" ] && sanitizer=$directory/$place/compute-sanitizer
  done
done
if [ -z "$sanitizer" ]; then
  echo "compute-sanitizer is neither on PATH nor below \$CUDA_HOME, \$CUDA_PATH or /usr/local/cuda" >&2
  exit 77
fi

export TRENCADIS_TEST_BACKEND=cuda TRENCADIS_CACHE_DIR=$build/test-cache
test=$build/bin/tests/gpu_sanitizer_test
"$test" "$@" # kernels are compiled here and not below
for tool in memcheck racecheck initcheck synccheck; do
  printf '\n== %s\n' "$tool"
  "$sanitizer" --tool "$tool" --error-exitcode 1 "$test" "$@"
done
