"""Compiles each header alone, syntax only: check_headers.py SOURCE_DIR COMPILER"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOTS = ("include", "src", "kernels")

# Room by room, since not every kernel header is host C++.
READ = ("include", "src", "kernels/contract", "kernels/variant")
NEEDS_CUDA = "src/backends/cuda"


def compile_alone(source: Path, compiler: str, header: Path) -> str:
    """What the compiler says against the header; empty if nothing."""
    command = [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-DXXH_INLINE_ALL"]
    command += [f"-I{source / root}" for root in ROOTS]
    # Included, not compiled as the main file, where `#pragma once` draws a warning.
    result = subprocess.run(
        command + ["-x", "c++", "-"],
        input=f'#include "{header}"\n',
        capture_output=True,
        text=True,
    )
    return result.stderr if result.returncode != 0 else ""


def main() -> int:
    source, compiler = Path(sys.argv[1]), sys.argv[2]
    headers = [
        header
        for directory in READ
        for header in sorted((source / directory).rglob("*.h"))
        if not header.is_relative_to(source / NEEDS_CUDA)
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        outputs = list(pool.map(lambda header: compile_alone(source, compiler, header), headers))
    failed = 0
    for header, output in zip(headers, outputs):
        if output:
            failed += 1
            print(f"{header.relative_to(source)} does not compile alone:\n{output}")
    print(f"{len(headers)} headers, {failed} do not compile alone")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
