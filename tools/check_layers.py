#!/usr/bin/env python3
"""Checks that every #include follows an arrow between rooms.

The table ROOMS is the whole rule: a room may include itself and what its line names, nothing else.
Tests and lab/ are not read; nothing may include them.

    tools/check_layers.py [--root DIR]     exit status 1 and a line for each wrong include
"""

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path

ANY = "any"

# Named groups of headers from outside the tree, by how their path begins (or the whole path).
EXTERNAL = {
    "dlpack": ("dlpack/",),
    "fmt": ("fmt/",),
    "json": ("nlohmann/",),
    "log": ("spdlog/",),
    "hash": ("xxhash.h",),
    "highway": ("hwy/",),
    "simd": ("immintrin.h", "x86intrin.h", "cpuid.h", "arm_neon.h", "arm_sve.h"),
    "posix": (
        "dirent.h", "dlfcn.h", "elf.h", "errno.h", "fcntl.h", "link.h", "linux/", "poll.h",
        "pthread.h", "pwd.h", "sched.h", "signal.h", "spawn.h", "sys/", "unistd.h",
    ),
    "cuda-device": ("cuda/", "cuda_bf16.h", "cuda_fp16.h", "cuda_fp8.h", "cuda_fp4.h"),
    "cuda-host": ("cuda.h", "nvrtc.h", "cuda_runtime_api.h"),
}

# What a header that is also compiled for a device may take from the standard library.
FREESTANDING = ("cstdint", "cstddef", "type_traits")
DEVICE_STD = FREESTANDING + ("bit", "cmath", "concepts", "cfloat", "climits", "limits", "utility")


@dataclass(frozen=True)
class Room:
    path: str  # a file belongs to the room with the longest path that it lies below
    may: tuple = ()  # rooms, besides itself
    std: object = ANY  # ANY, or the standard headers that it may include
    external: object = ()  # ANY, or names from EXTERNAL


# The backends implement what the engine asks of one; this header is all that they know of it.
INTERFACE = "src/engine/backend.h"

SRC_ROOMS = (
    "src/base", "src/sparsity", "src/planner", "src/codegen", "src/jit",
    "src/backends/cpu", "src/backends/cuda", "src/backends/reference",
)

CONTRACT, VARIANT, COLLECTIVE = "kernels/contract", "kernels/variant", "kernels/cuda/collective"
PTX, TILE, ENTRY = "kernels/cuda/ptx", "kernels/cuda/tile", "kernels/cuda/entry"
DEVICE = {"std": DEVICE_STD, "external": ("cuda-device",)}

ROOMS = (
    Room("include", external=("dlpack",)),
    # Kernel headers, compiled at run time. They know each other and nothing of the host.
    Room(CONTRACT, std=FREESTANDING),
    Room(VARIANT, may=(CONTRACT,), **DEVICE),
    Room(PTX, may=(CONTRACT,), **DEVICE),
    Room(TILE, may=(PTX, CONTRACT), **DEVICE),
    Room(COLLECTIVE, may=(TILE, PTX, VARIANT, CONTRACT), **DEVICE),
    Room(ENTRY, may=(COLLECTIVE, CONTRACT), **DEVICE),
    Room("kernels/cpu", may=(VARIANT, CONTRACT), external=("highway", "simd")),
    # The library, from the bottom up.
    Room("src/base", may=("include",), external=("dlpack", "fmt", "hash", "log", "posix")),
    Room("src/sparsity", may=("src/base", "include", CONTRACT), external=("fmt",)),
    # The planner's input, PlanInput and DeviceLimits, is public API.
    Room(
        "src/planner",
        may=("src/sparsity", "src/base", "include", CONTRACT),
        external=("fmt",),
    ),
    Room(
        "src/codegen",
        may=("src/base", "src/jit", "include", CONTRACT, VARIANT, "kernels/cpu"),
        external=("fmt", "json"),
    ),
    Room(
        "src/jit",
        may=("src/base", "include"),
        external=("cuda-host", "fmt", "hash", "json", "posix"),
    ),
    Room(INTERFACE, may=("src/base", "include", CONTRACT)),
    Room(
        "src/backends/cpu",
        may=(
            "src/base", "src/planner", "src/codegen", "src/jit", INTERFACE,
            "include", CONTRACT, VARIANT, "kernels/cpu",
        ),
        external=("dlpack", "fmt", "highway", "posix", "simd"),
    ),
    Room(
        "src/backends/cuda",
        may=(
            "src/base", "src/planner", "src/codegen", "src/jit", INTERFACE,
            "include", CONTRACT, VARIANT,
        ),
        external=("cuda-host", "dlpack", "fmt", "posix"),
    ),
    # The oracle shares no code with the kernels that it judges.
    Room(
        "src/backends/reference",
        may=("src/base", INTERFACE, "include", CONTRACT),
        external=("dlpack", "fmt"),
    ),
    Room(
        "src/engine",
        may=SRC_ROOMS + (INTERFACE, "include", CONTRACT),
        external=("dlpack", "fmt", "json", "posix"),
    ),
    # Users of the library: the public API, and whatever else they like from outside.
    Room("bindings", may=("include",), external=ANY),
    Room("apps", may=("include",), external=ANY),
    Room("benchmarks", may=("include",), external=ANY),
    Room("examples", may=("include",), external=ANY),
)

READ = ("include", "kernels", "src", "bindings", "apps", "benchmarks", "examples")
SUFFIXES = {".h", ".hpp", ".cuh", ".cpp", ".cc", ".cu", ".inl"}

# Read by nobody: what lies there may change or go without a thought for the library.
UNREADABLE = ("tests", "lab")

# Where a header of the tree is looked for, besides beside the file that includes it.
INCLUDE_ROOTS = ("include", "src", "kernels")

# Raw strings and comments may hold text that looks like an include: generated source, examples.
# Ordinary strings are matched only so that nothing inside one is taken for a comment.
NOT_CODE = re.compile(
    r'R"(?P<delimiter>[^()\\\s]*)\(.*?\)(?P=delimiter)"'
    r"|/\*.*?\*/|//[^\n]*"
    r'|(?P<string>"(?:\\.|[^"\\\n])*")',
    re.DOTALL,
)
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
# A standard header has no slash and no suffix: <vector>, <cstdint>. The C ones are used by few.
STANDARD = re.compile(r"^[a-z0-9_]+$")
C_STANDARD = {
    "assert.h", "float.h", "inttypes.h", "limits.h", "math.h", "stddef.h", "stdint.h", "stdio.h",
    "stdlib.h", "string.h", "time.h",
}


def code_lines(text: str):
    """The lines of the text, with raw strings and comments blanked."""

    def blank(match):
        return match[0] if match["string"] else "\n" * match[0].count("\n")

    return NOT_CODE.sub(blank, text).splitlines()


def below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory + "/")


def room_of(path: str):
    owners = [room for room in ROOMS if below(path, room.path)]
    return max(owners, key=lambda room: len(room.path), default=None)


def resolve(root: Path, file: Path, quote: str, header: str):
    """The header's path in the tree, or None for one from outside."""
    if quote == '"' and (file.parent / header).is_file():
        return (file.parent / header).relative_to(root).as_posix()
    for base in INCLUDE_ROOTS:
        if (root / base / header).is_file():
            return f"{base}/{header}"
    for directory in UNREADABLE:
        if below(header, directory) or (root / directory / header).is_file():
            return f"{directory}/{header}"
    # An app or a benchmark may be its own include root.
    top = root / file.relative_to(root).parts[0]
    for parent in file.parents:
        if quote == '"' and (parent / header).is_file():
            return (parent / header).relative_to(root).as_posix()
        if parent == top:
            break
    return None


def external_group(header: str):
    for name, prefixes in EXTERNAL.items():
        for prefix in prefixes:
            if header == prefix or (prefix.endswith("/") and header.startswith(prefix)):
                return name
    return None


def listed(items) -> str:
    if items is ANY:
        return "anything"
    return ", ".join(items) if items else "nothing"


def wrong(room: Room, root: Path, file: Path, quote: str, header: str):
    """Why the room may not include the header, or None where it may."""
    if ".." in header.split("/"):
        return "a path with .. hides which room it leads to; name the header from its include root"
    target = resolve(root, file, quote, header)
    if target is not None:
        other = room_of(target)
        name = other.path if other else target.split("/")[0]
        if other is room or (other and name in room.may):
            return None
        return f"{room.path} -> {name} is no arrow; allowed: {listed((room.path,) + room.may)}"
    if quote == '"':
        return "there is no such file in the tree; a header from outside is included with <>"
    if room.external is ANY:
        return None
    group = external_group(header)
    if group in room.external:
        return None
    if STANDARD.match(header) or header in C_STANDARD:
        if room.std is ANY or header in room.std:
            return None
        allowed = ", ".join(f"<{name}>" for name in room.std)
        return f"of the standard library {room.path} may include: {allowed}"
    what = f"{group} headers" if group else "a header from outside"
    allowed = listed(room.external)
    return f"{room.path} may not include {what}; allowed from outside: {allowed}"


def check(root: Path):
    root = root.resolve()
    problems = []
    checked = 0
    for directory in READ:
        for file in sorted((root / directory).rglob("*")):
            if file.suffix not in SUFFIXES or not file.is_file():
                continue
            path = file.relative_to(root).as_posix()
            room = room_of(path)
            if room is None:
                problems.append(f"{path}:1: lies in no room that tools/check_layers.py lists")
                continue
            lines = code_lines(file.read_text(encoding="utf-8"))
            for number, line in enumerate(lines, start=1):
                match = INCLUDE.match(line)
                if not match:
                    continue
                checked += 1
                reason = wrong(room, root, file, *match.groups())
                if reason:
                    problems.append(f"{path}:{number}: #include {match[2]}: {reason}")
    return problems, checked


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    problems, checked = check(parser.parse_args().root)
    for problem in problems:
        print(problem)
    print(f"{checked} includes read, {len(problems)} wrong")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
