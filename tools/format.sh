#!/usr/bin/env bash
# Formats every C++ file of the tree; with --check, changes nothing and fails where one differs.
set -euo pipefail
cd "$(dirname "$0")/.."

# Versions of clang-format disagree with each other, so the tree is formatted with one of them.
version=14
formatter=$(command -v "clang-format-$version" || true)
if [ -z "$formatter" ] && clang-format --version 2>/dev/null | grep -q "version $version\."; then
  formatter=clang-format
fi
if [ -z "$formatter" ]; then
  echo "clang-format $version is not installed; tools/setup.sh installs it" >&2
  exit 77
fi

mode=(-i)
[ "${1:-}" = --check ] && mode=(--dry-run --Werror)

present=()
for directory in include kernels src bindings apps tests benchmarks examples cmake; do
  [ -d "$directory" ] && present+=("$directory")
done
find "${present[@]}" -type f \( -name '*.h' -o -name '*.cpp' -o -name '*.cuh' -o -name '*.cu' \) -print0 |
  xargs -0 -r -n 8 -P "$(nproc)" "$formatter" "${mode[@]}"
