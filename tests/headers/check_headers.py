"""Compiles each header alone, syntax only: check_headers.py SOURCE_DIR COMPILER [--together]

--together compiles all of them in one go: enough to know that a second compiler takes them.
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOTS = ("include", "src", "kernels")

# Room by room, since not every kernel header is host C++.
READ = ("include", "src", "kernels/contract", "kernels/variant")
NEEDS_CUDA = "src/backends/cuda"


def complaints(source: Path, compiler: str, headers: list) -> str:
    """What the compiler says against a file that includes the headers; empty if nothing."""
    command = [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-DXXH_INLINE_ALL"]
    command += [f"-I{source / root}" for root in ROOTS]
    # Included, not compiled as the main file, where `#pragma once` draws a warning.
    result = subprocess.run(
        command + ["-x", "c++", "-"],
        input="".join(f'#include "{header}"\n' for header in headers),
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
    groups = [headers] if "--together" in sys.argv else [[header] for header in headers]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        outputs = list(pool.map(lambda group: complaints(source, compiler, group), groups))
    for group, output in zip(groups, outputs):
        if output:
            what = str(group[0].relative_to(source)) if len(group) == 1 else "all headers together"
            print(f"{what}: does not compile\n{output}")
    print(f"{len(headers)} headers, {sum(map(bool, outputs))} of {len(groups)} compilations failed")
    return 1 if any(outputs) else 0


if __name__ == "__main__":
    sys.exit(main())
