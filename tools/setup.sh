#!/usr/bin/env bash
# Installs what the build needs, from the distribution (Debian 12 or later, Ubuntu 22.04 or later).
# Installs nothing when all of it is there.
#
#   tools/setup.sh [extra package...]
set -euo pipefail

required=(
  # tools
  g++ make cmake ninja-build python3
  # the library
  libdlpack-dev libfmt-dev libhwy-dev libxxhash-dev nlohmann-json3-dev
  # the command
  libcli11-dev libfccp-dev libpugixml-dev libspdlog-dev
  # tests and benchmarks
  libbenchmark-dev libgmock-dev libgtest-dev librapidcheck-dev
  "$@"
)
# Taken where the distribution has them: a compiler cache, and the one version of clang-format that
# the tree is formatted with.
optional=(ccache clang-format-14)

missing() {
  local package status
  for package in "$@"; do
    status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || echo "$package"
  done
}

available() {
  local package
  for package in "$@"; do
    apt-cache show "$package" >/dev/null 2>&1 && echo "$package"
  done
  return 0
}

if ! command -v apt-get >/dev/null; then
  echo "setup: no apt-get here; the build needs what these Debian packages hold:" >&2
  echo "  ${required[*]}" >&2
  exit 0
fi

needed=$(missing "${required[@]}")
wanted=$(missing "${optional[@]}")
[ -z "$needed$wanted" ] && exit 0
# Without lists of packages nothing is known to be available; a machine that lacks only what its
# distribution does not have is complete.
[ -z "$needed" ] && [ -z "$(available $wanted)" ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if command -v sudo >/dev/null; then
    as_root=(sudo)
  elif [ -z "$needed" ]; then
    exit 0
  else
    echo "setup: these packages are missing, and installing them needs root:" $needed >&2
    exit 1
  fi
fi

apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@"
}
apt update
wanted=$(available $wanted)
echo "setup: installing" $needed $wanted
apt install -y --no-install-recommends $needed $wanted
