#!/usr/bin/env python3
"""Runs the CPU benchmarks on a quiet machine and writes docs/results/<date>-cpu.{json,md}.

    benchmarks/record_cpu.py [--build build] [--torch PYTHON_WITH_TORCH] [--replay build/demo/replay.json]

Every figure is a median or a ratio taken in one run. The JSON holds what the benchmarks printed,
whole; the table holds the figures that the project promises, beside what it promises.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# (benchmark, what it is, promised microseconds)
PLANS = (
    ("decode/256", "plan(), decode, batch 256", 6.0),
    ("decode/1024", "plan(), decode, batch 1,024", 15.0),
    ("prompts/256", "plan(), 256 prompts of 1,024 to 4,096 tokens", 100.0),
)


def run_json(binary, *flags):
    command = [str(binary), "--benchmark_format=json", *flags]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    report = json.loads(out)
    for name in ("host_name", "executable"):  # of this machine, and of no use elsewhere
        report["context"].pop(name, None)
    return report


def machine():
    model = next(
        (line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if "model name" in line),
        platform.processor(),
    )
    return {"cpu": model, "threads": len(os.sched_getaffinity(0)), "kernel": platform.release()}


def median_of(report, name):
    for run in report["benchmarks"]:
        if run["name"].startswith(name + "/") and run.get("aggregate_name") == "median":
            return run
    sys.exit(f"the benchmark has no median of {name}")


def plan_rows(plans):
    for name, what, promised in PLANS:
        time = median_of(plans, name)["cpu_time"]
        scale = {"ns": 1e-3, "us": 1.0, "ms": 1e3}[median_of(plans, name)["time_unit"]]
        yield what, f"{time * scale:.1f} µs", f"≤ {promised:g} µs"


def decode_rows(decode):
    for run in decode["benchmarks"]:
        if run["run_type"] == "iteration":
            promised = "≥ 70 %" if run["name"].startswith("decode/bfloat16/nhd/16x4096") else ""
            name = "/".join(run["name"].split("/")[:4])
            figures = f"{run['kv_GBps']:.1f} of {run['probe_GBps']:.1f} GB/s"
            yield f"{name}, KV read", f"{100 * run['read_share']:.0f} % ({figures})", promised


def torch_rows(torch):
    for case in torch["cases"]:
        what = f"prefill {case['dtype']}, {torch['tokens']:,} tokens causal, torch {torch['torch']} over ours"
        times = f"{case['torch_ms']:.0f} / {case['ours_ms']:.0f} ms"
        yield what, f"{case['ratio']:.2f} ({times})", "≥ 1.0"


def replay_rows(replay):
    yield "replay: requests, tokens", f"{replay['requests']:,}, {replay['tokens']:,}", "≥ 1,000 requests"
    yield "replay: seconds", f"{replay['seconds']:.0f}", "≤ 120"
    yield "replay: plan(), median, p99", "{median:.1f}, {p99:.1f} µs".format(**replay["plan_us"]), ""
    yield "replay: KV read in decode steps", f"{100 * replay['read_share']:.0f} %", ""
    yield "replay: largest error against float64", f"{replay['max_error']:.2e}", ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--torch", help="a Python that has torch")
    parser.add_argument("--replay", type=pathlib.Path, help="the demo's report")
    args = parser.parse_args()
    binaries = args.build / "bin" / "benchmarks"
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    report = {"date": today, "commit": commit, "machine": machine()}

    report["plan"] = run_json(binaries / "plan_benchmark")
    rows = list(plan_rows(report["plan"]))
    report["decode"] = run_json(binaries / "cpu_decode_benchmark")
    rows += decode_rows(report["decode"])
    if args.torch:
        scratch = args.build / "torch.json"
        subprocess.run(
            [args.torch, ROOT / "benchmarks/compare_torch.py", binaries / "cpu_prefill_benchmark",
             "--json", scratch], check=True)
        report["torch"] = json.loads(scratch.read_text())
        rows += torch_rows(report["torch"])
    if args.replay:
        report["replay"] = json.loads(args.replay.read_text())
        rows += replay_rows(report["replay"])

    results = ROOT / "docs" / "results"
    results.mkdir(parents=True, exist_ok=True)
    (results / f"{today}-cpu.json").write_text(json.dumps(report, indent=1) + "\n")
    lines = [
        f"# CPU, {today}",
        "",
        f"Commit {commit[:12]}, {machine()['cpu']}, {machine()['threads']} threads, "
        f"load average before the run {report['plan']['context']['load_avg'][0]:.1f}. "
        "Plans: one core, H200 limits, 32/8 heads, D 128, lengths of the Azure trace. "
        "Decode: 32/8 heads, D 128, pages of 16, permuted.",
        "",
        "| what | measured | promised |",
        "|---|---|---|",
        *(f"| {what} | {value} | {promised} |" for what, value, promised in rows),
        "",
    ]
    (results / f"{today}-cpu.md").write_text("\n".join(lines))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
