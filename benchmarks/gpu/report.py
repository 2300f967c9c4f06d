"""Figures of a run as JSON and as Markdown tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

ALLOWED_ERROR = 1e-2  # relative, of bfloat16 outputs against float32

Case = dict[str, Any]
Cell = Callable[[Case], float | None]
Column = tuple[str, Cell, str]  # header, figure, format


def _figure(engine: str, key: str) -> Cell:
    return lambda case: case.get("times", {}).get(engine, {}).get(key)


def _time(engine: str, header: str) -> Column:
    return f"{header} µs", _figure(engine, "us"), ".1f"


def _bandwidth(engine: str, header: str) -> Column:
    return f"{header} TB/s", _figure(engine, "tbps"), ".2f"


def _throughput(engine: str, header: str) -> Column:
    return f"{header} TFLOP/s", _figure(engine, "tflops"), ".0f"


def _ratio(header: str, over: str, under: str) -> Column:
    """Time over time."""

    def cell(case: Case) -> float | None:
        above, below = _figure(over, "us")(case), _figure(under, "us")(case)
        return above / below if above and below else None

    return header, cell, ".2f"


def _plain(key: str, header: str, shape: str) -> Column:
    return header, lambda case: case.get(key), shape


_PAGED_DECODE: list[Column] = [
    _time("P16", "P16"),
    _time("P1", "P1"),
    _time("cudnn", "cuDNN"),
    _time("flash", "flash"),
    _time("flex", "flex"),
    _bandwidth("P16", "P16"),
    _bandwidth("P1", "P1"),
    _bandwidth("cudnn", "cuDNN"),
    _ratio("cuDNN / P16", "cudnn", "P16"),
    _ratio("cuDNN / P1", "cudnn", "P1"),
]

COLUMNS: dict[str, list[Column]] = {
    "decode": _PAGED_DECODE,
    "short": _PAGED_DECODE,
    "skewed": [
        _time("P16", "P16"),
        _time("P1", "P1"),
        _time("P16 constant", "P16 constant"),
        _time("P1 constant", "P1 constant"),
        _time("cudnn", "cuDNN constant"),
        _ratio("P16 / constant", "P16", "P16 constant"),
        _ratio("P1 / constant", "P1", "P1 constant"),
    ],
    "pages": [
        _time("contiguous", "contiguous"),
        _time("P16", "P16"),
        _time("P1", "P1"),
        _time("cudnn", "cuDNN"),
        _ratio("P16 / contiguous", "P16", "contiguous"),
        _ratio("P1 / contiguous", "P1", "contiguous"),
    ],
    "prefill": [
        _time("ours", "ours"),
        _throughput("ours", "ours"),
        _throughput("cudnn", "cuDNN"),
        _throughput("flash", "flash"),
        _ratio("cuDNN / ours", "cudnn", "ours"),
        _ratio("flash / ours", "flash", "ours"),
    ],
    "variants": [
        _time("ours", "ours"),
        _throughput("ours", "ours"),
        _throughput("flex", "flex"),
        _ratio("flex / ours", "flex", "ours"),
    ],
    "balance": [
        _time("balanced", "balanced"),
        _time("whole", "whole"),
        _bandwidth("balanced", "balanced"),
        _ratio("whole / balanced", "whole", "balanced"),
    ],
    "host": [
        _plain("run_us", "run() µs", ".2f"),
        _plain("plan_us", "plan() µs", ".2f"),
        _time("exact", "exact limits"),
        _time("large", "large limits"),
        _ratio("large / exact", "large", "exact"),
    ],
    "first_use": [
        _plain("cold_s", "empty cache s", ".2f"),
        _plain("warm_s", "warm cache s", ".3f"),
        _plain("device_s", "context before s", ".2f"),
    ],
}


def is_wrong(case: Case) -> bool:
    errors = case.get("errors", {}).values()
    return any(error is None or error >= ALLOWED_ERROR for error in errors)


def is_bad(case: Case) -> bool:
    """Makes the exit status non-zero."""
    return "failed" in case or is_wrong(case)


def _row(case: Case, columns: list[Column]) -> list[str]:
    if "failed" in case:
        return [case["name"], "**failed**", *[""] * len(columns)]
    cells = []
    for _, figure, shape in columns:
        value = figure(case)
        cells.append("-" if value is None else format(value, shape))
    errors = case.get("errors", {}).values()
    worst = "nan" if None in errors else format(max(errors), ".0e") if errors else "-"
    mark = "**wrong** " if is_wrong(case) else ""
    return [case["name"], *cells, mark + worst]


def table(suite: str, cases: list[Case]) -> str:
    """Columns in which no case has a figure are left out."""
    columns = [
        column for column in COLUMNS[suite] if any(column[1](case) is not None for case in cases)
    ]
    lines = [
        "| " + " | ".join([suite, *(header for header, _, _ in columns), "error"]) + " |",
        "|" + "---|" * (len(columns) + 2),
    ]
    lines += ["| " + " | ".join(_row(case, columns)) + " |" for case in cases]
    lines += [f"\n{case['name']}: {case['failed']}" for case in cases if "failed" in case]
    return "\n".join(lines)


def markdown(report: dict[str, Any]) -> str:
    by_suite: dict[str, list[Case]] = {}
    for case in report["cases"]:
        by_suite.setdefault(case["suite"], []).append(case)
    head = (
        f"{report['device']}, driver {report['driver']}, torch {report['torch']}, "
        f"cuDNN {report['cudnn']}, {report['date']}, commit {report['commit']}. bf16; a ratio is "
        "time over time. error: relative, against float32."
    )
    parts = [head, *(table(suite, cases) for suite, cases in by_suite.items())]
    if report["not_run"]:
        parts.append(f"Not run: {', '.join(report['not_run'])}.")
    return "\n\n".join(parts) + "\n"


def write_json(path: Path, report: dict[str, Any]) -> None:
    """Whole or not at all: a run that is killed leaves what was there."""
    scratch = path.with_name(path.name + ".part")
    scratch.write_text(json.dumps(report, indent=1) + "\n")
    scratch.replace(path)
