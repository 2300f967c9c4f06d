#!/usr/bin/env bash
# Installs what the build needs, from the distribution (Debian 12, Ubuntu 22.04 and 24.04). Installs
# nothing when all of it is there.
#
#   tools/setup.sh [extra package...]
set -euo pipefail

packages=(
  # tools
  g++ make cmake ninja-build ccache python3 clang-format-14
  # the library
  libdlpack-dev libfmt-dev libhwy-dev libxxhash-dev nlohmann-json3-dev
  # the command
  libcli11-dev libfccp-dev libpugixml-dev libspdlog-dev
  # tests and benchmarks
  libbenchmark-dev libgmock-dev libgtest-dev librapidcheck-dev
  "$@"
)

if ! command -v apt-get >/dev/null; then
  echo "setup: no apt-get here; the build needs what these Debian packages hold:" >&2
  echo "  ${packages[*]}" >&2
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "setup: these packages are missing, and installing them needs root: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "setup: installing ${missing[*]}"
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@"
}
apt update
apt install -y --no-install-recommends "${missing[@]}"
