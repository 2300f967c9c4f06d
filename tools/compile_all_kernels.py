#!/usr/bin/env python3
"""Compiles every stock kernel for every CUDA architecture, without a GPU, and says what each takes.

    tools/compile_all_kernels.py [--command build/bin/trencadis] [--arch sm_90a ...] [--every | --variant alibi ...]

By default the variants that models commonly ask for, 1,470 configurations; --every takes all
combinations of the stock options with one mask at a time, 8,820. One takes a core about 2 s. Kernels go into the cache ($TRENCADIS_CACHE_DIR): a second run compiles what has changed.
Prints a line for each architecture, dtype and head dim with the most that its variants take, then
each kernel that spills. Exit status 1 where one spills or does not compile. Combinations that an
architecture has no room for are counted, with the reason.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a")
DTYPES = ("bf16", "f16", "f32")
HEAD_DIMS = ("64", "80", "96", "128", "192/128", "256", "512")

# Causality, windows, sinks and RoPE's form are arguments of a kernel, not parts of it.
MASKS = ("", "custom_mask", "prefix_lm", "document_mask")
COMMON = (
    "", "soft_cap=50", "alibi", "rope", "rope,soft_cap=50", "custom_mask", "custom_mask,soft_cap=50",
    "prefix_lm", "document_mask", "sigmoid",
)  # fmt: skip
OPTIONS = {
    "softmax": (("", "soft_cap=50"), ("", "alibi"), MASKS, ("", "rope", "rope,rope_positions")),
    "sigmoid": (("sigmoid",), MASKS, ("", "rope", "rope,rope_positions")),
}


def every_variant():
    for options in OPTIONS.values():
        for chosen in itertools.product(*options):
            yield ",".join(option for option in chosen if option)


@dataclass(frozen=True)
class Configuration:
    arch: str
    dtype: str
    head_dims: str
    variant: str

    @property
    def spec(self):
        qk, _, vo = self.head_dims.partition("/")
        dims = f"head_dim={qk}" + (f",head_dim_vo={vo}" if vo else "")
        return f"{dims},dtype={self.dtype}" + (f",{self.variant}" if self.variant else "")


@dataclass
class Result:
    kernels: list = field(default_factory=list)  # as `trencadis compile --json` lists them
    not_supported: str = ""
    error: str = ""

    def most(self, what):
        return max(kernel[what] for kernel in self.kernels)


def compile_one(command, configuration):
    arguments = [command, "compile", "--json", "--arch", configuration.arch, "--spec", configuration.spec]
    done = subprocess.run(arguments, capture_output=True, text=True)
    if done.returncode == 0:
        return Result(kernels=json.loads(done.stdout)[0]["resources"])
    reason = done.stderr.strip().removeprefix("trencadis: ")
    not_supported = "not supported: "
    if reason.startswith(not_supported):
        return Result(not_supported=reason.removeprefix(not_supported))
    return Result(error=reason)


def print_group(name, results):
    """One line: an architecture, dtype and head dim."""
    compiled = [result for result in results if result.kernels]
    if not compiled:
        print(f"{name}  {results[0].not_supported or results[0].error.splitlines()[0]}")
        return
    registers, stack, shared = (
        max(result.most(what) for result in compiled) for what in ("registers", "stack_bytes", "shared_bytes")
    )
    spilling = sum(1 for result in compiled if result.most("stack_bytes") > 0)
    print(
        f"{name}  {len(compiled):7}  {registers:9}  {shared:12,}  {stack:11,}  {spilling or '':>6}", flush=True
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", default="build/bin/trencadis")
    parser.add_argument("--arch", nargs="+", choices=ARCHITECTURES, default=ARCHITECTURES)
    parser.add_argument("--dtype", nargs="+", choices=DTYPES, default=DTYPES)
    parser.add_argument("--head-dim", nargs="+", choices=HEAD_DIMS, default=HEAD_DIMS)
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--every", action="store_true", help="every combination of the stock options")
    chosen.add_argument("--variant", nargs="+", help='as in a spec: "alibi,soft_cap=50"; "" is plain softmax')
    parser.add_argument("--list", action="store_true", help="print the configurations and stop")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    o = parser.parse_args()

    variants = o.variant or (tuple(every_variant()) if o.every else COMMON)
    groups = list(itertools.product(o.arch, o.dtype, o.head_dim))
    configurations = [Configuration(*group, variant) for group in groups for variant in variants]
    if o.list:
        for configuration in configurations:
            print(configuration.arch, configuration.spec)
        print(f"{len(configurations)} configurations")
        return 0

    print("arch     dtype  head dim  kernels  registers  shared bytes  stack bytes  spilling")
    results = []
    with ThreadPoolExecutor(o.jobs) as pool:
        running = pool.map(lambda configuration: compile_one(o.command, configuration), configurations)
        for arch, dtype, head_dim in groups:
            of_group = list(itertools.islice(running, len(variants)))
            print_group(f"{arch:7}  {dtype:5}  {head_dim:8}", of_group)
            results += of_group

    pairs = list(zip(configurations, results))
    for configuration, result in pairs:
        for kernel in result.kernels:
            if kernel["stack_bytes"] > 0:
                print(f"spills: {kernel['name']} {kernel['stack_bytes']} bytes: "
                      f"{configuration.arch} {configuration.spec}")  # fmt: skip
        if result.error:
            print(f"failed: {configuration.arch} {configuration.spec}: {result.error}")
    kinds = Counter(
        "failed" if result.error
        else "not supported" if result.not_supported
        else "spilling" if result.most("stack_bytes") > 0
        else "without a spill"
        for result in results
    )  # fmt: skip
    print(f"{len(results)} configurations: " + ", ".join(f"{count} {kind}" for kind, count in kinds.items()))
    return 1 if kinds["failed"] or kinds["spilling"] else 0


if __name__ == "__main__":
    sys.exit(main())
