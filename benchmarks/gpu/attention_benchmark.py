#!/usr/bin/env python3
"""Attention on a GPU beside PyTorch's, case by case in one process.

    benchmarks/gpu/attention_benchmark.py build/bin/benchmarks/libtrencadis_bench_bridge.so \\
        [--suites decode,prefill] [--quick] [--budget-s 500] [--json OUT] [--table OUT]

Needs a Python with torch and one NVIDIA GPU. PyTorch owns memory, streams and graphs; our kernels
are captured through the bridge, and the engines of a case replay their graphs in turns. Cases that
are bound by memory rotate over inputs that exceed L2; those bound by arithmetic are short bursts
after a rest. Each case checks our outputs against float32. The exit status is 1 where one is wrong
or failed.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SUITES = (
    "decode",
    "short",
    "skewed",
    "pages",
    "prefill",
    "variants",
    "balance",
    "host",
    "first_use",
)


def parse_arguments() -> argparse.Namespace:
    def suites(text: str) -> list[str]:
        names = text.split(",")
        for name in names:
            if name not in SUITES:
                raise argparse.ArgumentTypeError(f"{name} is none of {', '.join(SUITES)}")
        return names

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bridge", type=Path, help="libtrencadis_bench_bridge.so")
    parser.add_argument("--suites", type=suites, default=list(SUITES), help=",".join(SUITES))
    parser.add_argument("--quick", action="store_true", help="fewer shapes")
    parser.add_argument("--budget-s", type=float, help="start no case that may end later than this")
    parser.add_argument("--idle-ms", type=float, default=60.0, help="rest before each burst")
    parser.add_argument(
        "--lengths",
        type=Path,
        default=Path(__file__).with_name("decode_lengths.json"),
        help="KV lengths of the skewed batches",
    )
    parser.add_argument("--commit", default="unknown", help="what was measured")
    parser.add_argument("--json", type=Path, help="write the figures here after every case")
    parser.add_argument("--table", type=Path, help="write Markdown tables here")
    return parser.parse_args()


def conditions(args: argparse.Namespace) -> dict[str, Any]:
    import torch

    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        driver = subprocess.run(query, check=True, capture_output=True, text=True).stdout.split()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        driver = "unknown"
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": args.commit,
        "device": torch.cuda.get_device_name(),
        "driver": driver,
        "torch": torch.__version__,
        "cudnn": torch.backends.cudnn.version(),
        "idle_ms": args.idle_ms,
        "quick": args.quick,
    }


def run_case(case: Any) -> dict[str, Any]:
    start = time.monotonic()
    record = {"suite": case.suite, "name": case.name}
    try:
        record.update(case.run())
    except Exception as error:
        record["failed"] = f"{type(error).__name__}: {error}"[:400]
    record["seconds"] = round(time.monotonic() - start, 2)
    return record


def main() -> int:
    start = time.monotonic()
    args = parse_arguments()
    try:
        import torch
    except ImportError as error:
        sys.exit(f"{error}; run this with a Python that has torch (pip install torch)")
    import report
    import suites
    from bridge import Bridge

    torch.manual_seed(0)
    bridge_path = str(args.bridge.resolve())
    lengths = json.loads(args.lengths.read_text())
    context = suites.Context(Bridge(bridge_path), bridge_path, args.idle_ms, args.quick, lengths)
    cases = [case for suite in args.suites for case in suites.SUITES[suite](context)]
    result: dict[str, Any] = {**conditions(args), "cases": [], "not_run": []}

    longest = 0.0
    for index, case in enumerate(cases):
        if args.budget_s and time.monotonic() - start + longest > args.budget_s:
            result["not_run"] = [f"{left.suite} {left.name}" for left in cases[index:]]
            break
        record = run_case(case)
        result["cases"].append(record)
        longest = max(longest, record["seconds"])
        state = "failed" if "failed" in record else "wrong" if report.is_wrong(record) else "ok"
        print(
            f"{case.suite}: {case.name}: {state}, {record['seconds']:.1f} s",
            file=sys.stderr,
            flush=True,
        )
        gc.collect()  # graphs hold memory pools
        try:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
        except Exception as error:  # a kernel broke the context, and nothing more can run in it
            record.setdefault("failed", f"{type(error).__name__}: {error}"[:400])
            result["not_run"] = [f"{left.suite} {left.name}" for left in cases[index + 1 :]]
            break
        finally:
            if args.json:
                report.write_json(args.json, result)

    if args.json:
        report.write_json(args.json, result)
    text = report.markdown(result)
    if args.table:
        args.table.write_text(text)
    print(text, flush=True)
    return 1 if any(report.is_bad(record) for record in result["cases"]) else 0


if __name__ == "__main__":
    sys.exit(main())
