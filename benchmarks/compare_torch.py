#!/usr/bin/env python3
"""Prefill against PyTorch's scaled_dot_product_attention on the CPU, taken in turns.

    benchmarks/compare_torch.py build/bin/benchmarks/cpu_prefill_benchmark [--rounds N] [--json OUT]

Needs a Python with torch; the build and the tests do not. Both sides use every CPU that the process
may run on. In each round each side runs its case several times and keeps the best, so that a noisy
neighbour spoils a round and not a side; the ratio is that of the medians over the rounds, torch's
time over ours: above 1 we are faster.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

HEADS, KV_HEADS, HEAD_DIM = 32, 8, 128


def torch_time(torch, dtype: str, tokens: int, repeats: int) -> float:
    """Best milliseconds of one call, causal, batch 1: the faster of grouped heads (enable_gqa) and
    keys and values that were expanded to all heads before the clock started."""
    kind = getattr(torch, dtype)
    q = torch.randn(1, HEADS, tokens, HEAD_DIM).to(kind)
    k = torch.randn(1, KV_HEADS, tokens, HEAD_DIM).to(kind)
    v = torch.randn(1, KV_HEADS, tokens, HEAD_DIM).to(kind)
    group = HEADS // KV_HEADS
    forms = (
        (k, v, {"enable_gqa": True}),
        (k.repeat_interleave(group, 1), v.repeat_interleave(group, 1), {}),
    )
    attend = torch.nn.functional.scaled_dot_product_attention
    times = []
    with torch.inference_mode():
        for keys, values, options in forms:
            for call in range(repeats + 1):
                start = time.perf_counter()
                attend(q, keys, values, is_causal=True, **options)
                if call > 0:  # the first warms up
                    times.append((time.perf_counter() - start) * 1e3)
    return min(times)


def our_time(binary: str, dtype: str, tokens: int, repeats: int) -> float:
    command = [
        binary,
        f"--benchmark_filter=^prefill/{dtype}/{tokens}/",
        f"--benchmark_repetitions={repeats}",
        "--benchmark_min_time=0.01",
        "--benchmark_format=json",
    ]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    runs = [run for run in json.loads(out)["benchmarks"] if run["run_type"] == "iteration"]
    if not runs:
        sys.exit(f"{binary} has no case prefill/{dtype}/{tokens}")
    return min(run["real_time"] for run in runs)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", help="cpu_prefill_benchmark")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3, help="calls a round and side")
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--json", help="write the figures here")
    args = parser.parse_args()
    try:
        import torch
    except ImportError as error:
        sys.exit(f"{error}; run this with a Python that has torch (pip install torch)")
    threads = len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)

    report = {"torch": torch.__version__, "threads": threads, "tokens": args.tokens, "cases": []}
    for dtype in ("float32", "bfloat16"):
        ours, theirs = [], []
        for _ in range(args.rounds):
            ours.append(our_time(args.binary, dtype, args.tokens, args.repeats))
            theirs.append(torch_time(torch, dtype, args.tokens, args.repeats))
        case = {
            "dtype": dtype,
            "ours_ms": statistics.median(ours),
            "torch_ms": statistics.median(theirs),
        }
        case["ratio"] = case["torch_ms"] / case["ours_ms"]
        report["cases"].append(case)
        print("{dtype}: ours {ours_ms:.1f} ms, torch {torch_ms:.1f} ms, {ratio:.2f}x".format(**case))
    if args.json:
        with open(args.json, "w") as file:
            json.dump(report, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
