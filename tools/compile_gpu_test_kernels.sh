#!/usr/bin/env bash
# Compiles, on a machine without a GPU, the kernels that the GPU tests ask for, into the cache that
# they look into (BUILD/test-cache): a machine with one then runs them without NVRTC, or at once. The
# tests run on the fake driver, which launches nothing; what comes out is wrong and nobody looks.
#
#   tools/compile_gpu_test_kernels.sh [BUILD] [ctest arguments...]     build and -j $(nproc) unless told
set -euo pipefail

build=$(realpath "${1:-$(dirname "$0")/../build}")
shift || true

export TRENCADIS_LIBCUDA=$build/lib/libcuda_fake.so
export TRENCADIS_FAKE_CUDA_GLOBAL=trencadis_shared_bytes=1024
export TRENCADIS_FAKE_CUDA_MIB=4000  # less than the largest pools take: those need no other kernel
export TRENCADIS_TEST_ONLY_COMPILES=1
ctest --test-dir "$build" -L gpu --quiet -j "$(nproc)" "$@" || true
entries=$(find "$build/test-cache" -type f | wc -l)
echo "$build/test-cache holds $entries files"
