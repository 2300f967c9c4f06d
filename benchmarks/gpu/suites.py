"""The cases, by suite, and how each kind is run."""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

import peers
from bridge import Bridge
from problem import CONTIGUOUS, Problem, Variant, decode, prefill
from timing import Call, capture, measure
from workload import Ours, TensorSet, tensor_sets

ROTATE_BYTES = 400_000_000  # several times any L2
GRAPH_MS = {"memory": 4.0, "compute": 10.0}
MEMORY_REPEATS, BURSTS = 9, 5
GQA = (32, 8)
CAUSAL = Variant(causal=True)


@dataclass(frozen=True)
class Context:
    bridge: Bridge
    bridge_path: str
    idle_ms: float
    quick: bool
    lengths: dict[str, list[int]]  # of the skewed batches


@dataclass(frozen=True)
class Case:
    suite: str
    name: str
    run: Callable[[], dict[str, Any]]  # the figures, "errors" and "peer_failures"


@dataclass(frozen=True)
class Setup:
    """One of our engines in a case, by how it differs from the others."""

    page_size: int
    limits: dict[str, int] | None = None
    plan: dict[str, str] | None = None
    problem: Problem | None = None  # where it is not the case's


def page_label(page_size: int) -> str:
    return "contiguous" if page_size == CONTIGUOUS else f"P{page_size}"


def _peer_calls(name: str, problem: Problem, sets: list[TensorSet]) -> list[Call]:
    tensors = [peers.dense(problem, s.q, s.k, s.v) for s in sets]
    if name == "flex":
        bind = peers.flex(problem)
        return [bind(t) for t in tensors]
    return [peers.sdpa(name, problem, t) for t in tensors]


def compare(
    context: Context,
    regime: str,
    problem: Problem,
    ours: dict[str, Setup],
    peer_names: tuple[str, ...] = (),
    peer_problem: Problem | None = None,
) -> dict[str, Any]:
    """Times our engines and the peers in turns and checks ours. A peer that fails is a note."""
    memory = regime == "memory"
    pool_tokens = max(
        (setup.problem or problem).pool_tokens(setup.page_size) for setup in ours.values()
    )
    sets = tensor_sets(problem, pool_tokens, ROTATE_BYTES if memory else 0)
    captured, failures = {}, {}
    with ExitStack() as stack:
        engines = {}
        for name, setup in ours.items():
            engine = Ours(
                context.bridge,
                setup.problem or problem,
                setup.page_size,
                sets,
                setup.limits,
                setup.plan,
            )
            engines[name] = stack.enter_context(engine)
            captured[name] = capture(engine.calls(), GRAPH_MS[regime])
        for name in peer_names:
            try:
                calls = _peer_calls(name, peer_problem or problem, sets)
                captured[name] = capture(calls, GRAPH_MS[regime])
            except Exception as error:  # whatever a peer refuses is its own affair
                failures[name] = f"{type(error).__name__}: {error}"[:300]
                torch.cuda.synchronize()
        for engine in engines.values():
            engine.out.fill_(float("nan"))
        if memory:
            times = measure(captured, MEMORY_REPEATS)
        else:
            times = measure(captured, BURSTS, context.idle_ms)
        errors = {name: engine.error() for name, engine in engines.items()}

    figures: dict[str, Any] = {"regime": regime, "sets": len(sets), "errors": errors}
    if failures:
        figures["peer_failures"] = failures
    figures["times"] = {name: timing.to_json() for name, timing in times.items()}
    for name, timing in times.items():
        of = (ours[name].problem if name in ours else peer_problem) or problem
        if memory:
            figures["times"][name]["tbps"] = of.io_bytes / timing.us / 1e6
        else:
            figures["times"][name]["tflops"] = of.flops / timing.us / 1e6
    return figures


def decode_suite(context: Context) -> list[Case]:
    shapes = (
        [(64, 4096), (1, 32768)]
        if context.quick
        else [(64, 4096), (128, 8192), (1, 32768), (1, 131072)]
    )
    rivals = ("cudnn", "flash") if context.quick else ("cudnn", "flash", "flex")

    def case(batch: int, tokens: int) -> Case:
        problem = decode(GQA, [tokens] * batch)
        ours = {"P16": Setup(16), "P1": Setup(1)}
        return Case(
            "decode",
            f"{batch} x {tokens:,} 32/8",
            lambda: compare(context, "memory", problem, ours, rivals),
        )

    return [case(*shape) for shape in shapes]


def short_suite(context: Context) -> list[Case]:
    def case(heads: tuple[int, int]) -> Case:
        problem = decode(heads, [1024] * 16)
        ours = {"P16": Setup(16), "P1": Setup(1)}
        return Case(
            "short",
            f"16 x 1,024 {heads[0]}/{heads[1]}",
            lambda: compare(context, "memory", problem, ours, ("cudnn", "flash")),
        )

    return [case(heads) for heads in ([GQA] if context.quick else [(32, 32), GQA, (32, 4)])]


def skewed_suite(context: Context) -> list[Case]:
    """Against a batch of equal lengths and as many tokens, up to a token a request."""

    def case(kind: str, heads: tuple[int, int]) -> Case:
        lens = context.lengths[kind]
        even = [sum(lens) // len(lens)] * len(lens)
        skewed, constant = decode(heads, lens), decode(heads, even)
        ours = {
            "P16": Setup(16),
            "P1": Setup(1),
            "P16 constant": Setup(16, problem=constant),
            "P1 constant": Setup(1, problem=constant),
        }
        return Case(
            "skewed",
            f"{kind} {heads[0]}/{heads[1]}",
            lambda: compare(context, "memory", skewed, ours, ("cudnn",), constant),
        )

    all_heads = [GQA] if context.quick else [(32, 32), GQA, (32, 4)]
    return [case(kind, heads) for kind in ("uniform", "zipf") for heads in all_heads]


def pages_suite(context: Context) -> list[Case]:
    ours = {page_label(size): Setup(size) for size in (CONTIGUOUS, 16, 1)}
    decoding = decode(GQA, [4096] * 64)
    prompts = prefill(GQA, 32, 1024, 128, CAUSAL)
    return [
        Case(
            "pages",
            "decode 64 x 4,096 32/8",
            lambda: compare(context, "memory", decoding, ours, ("cudnn",)),
        ),
        Case(
            "pages",
            "prefill 32 x 1,024 causal 32/8",
            lambda: compare(context, "compute", prompts, ours, ("cudnn",)),
        ),
    ]


def _prefill_case(
    context: Context, suite: str, label: str, problem: Problem, rivals: tuple[str, ...]
) -> Case:
    ours = {"ours": Setup(CONTIGUOUS)}
    return Case(suite, label, lambda: compare(context, "compute", problem, ours, rivals))


def prefill_suite(context: Context) -> list[Case]:
    total = 16384
    every, some = (512, 1024, 2048, 4096, 8192, 16384), (1024, 4096, 16384)
    shapes = [(128, (16, 16), every), (128, GQA, every), (64, (32, 32), some), (256, (8, 8), some)]
    if context.quick:
        shapes = [
            (128, (16, 16), (512, 4096, 16384)),
            (128, GQA, (4096,)),
            (64, (32, 32), (4096,)),
            (256, (8, 8), (4096,)),
        ]
    cases = []
    for head_dim, heads, lengths in shapes:
        for tokens in lengths:
            for mask, variant in (("causal", CAUSAL), ("full", Variant())):
                problem = prefill(heads, total // tokens, tokens, head_dim, variant)
                label = f"D{head_dim} {heads[0]}/{heads[1]} {total // tokens} x {tokens:,} {mask}"
                cases.append(_prefill_case(context, "prefill", label, problem, ("cudnn", "flash")))
    return cases


def variants_suite(context: Context) -> list[Case]:
    total, heads = 16384, (16, 16)
    variants = {
        "soft cap 30, causal": Variant(causal=True, soft_cap=30.0),
        "soft cap 30, full": Variant(soft_cap=30.0),
        "ALiBi, causal": Variant(causal=True, alibi=True),
        "ALiBi, full": Variant(alibi=True),
        "window 1,024, causal": Variant(causal=True, window=1024),
    }
    cases = []
    for tokens in (8192,) if context.quick else (512, 2048, 8192, 16384):
        for label, variant in variants.items():
            problem = prefill(heads, total // tokens, tokens, 128, variant)
            name = f"{total // tokens} x {tokens:,} {label}"
            cases.append(_prefill_case(context, "variants", name, problem, ("flex",)))
    return cases


def balance_suite(context: Context) -> list[Case]:
    """Whole (request, head) pairs go longest first to the least-loaded queue, which is no worse
    than the order in which hardware would dispatch a CTA for each."""

    def case(batch: int) -> Case:
        generator = random.Random(batch)
        problem = decode(GQA, [generator.randint(4096, 16384) for _ in range(batch)])
        ours = {
            "balanced": Setup(16),
            "whole": Setup(16, plan={"split": "none", "scheduler": "longest_first"}),
        }
        return Case("balance", f"batch {batch}", lambda: compare(context, "memory", problem, ours))

    return [case(batch) for batch in ((16,) if context.quick else (16, 32, 64))]


def host_suite(context: Context) -> list[Case]:
    def host_times(problem: Problem) -> dict[str, Any]:
        """Medians over rounds of calls; a round ends before the driver's queue is full."""
        sets = tensor_sets(problem, problem.pool_tokens(16))
        with Ours(context.bridge, problem, 16, sets) as ours:
            stream = torch.cuda.Stream()
            runs, plans = [], []
            for _ in range(11):
                runs.append(ours.engine.time_run(ours.bindings[0], stream.cuda_stream, 200))
                stream.synchronize()
            for _ in range(11):
                plans.append(ours.engine.time_plan(stream.cuda_stream, 20))
                stream.synchronize()
            errors = {"P16": ours.error()}
        return {  # the first round warms up
            "errors": errors,
            "run_us": statistics.median(runs[1:]) / 1e3,
            "plan_us": statistics.median(plans[1:]) / 1e3,
        }

    def limits_case(batch: int) -> Case:
        problem = decode(GQA, [4096] * batch)
        large = {
            "max_batch": 1024,
            "max_qo_tokens": 4096,
            "max_pages": 1 << 20,
            "max_kv_tokens": 131072,
        }
        ours = {"exact": Setup(16), "large": Setup(16, limits=large)}
        return Case(
            "host",
            f"graph {batch} x 4,096, limits",
            lambda: compare(context, "memory", problem, ours),
        )

    timed = {
        "decode 64 x 1,024": decode(GQA, [1024] * 64),
        "decode 256 x 512": decode(GQA, [512] * 256),
        "prefill 4 x 512": prefill(GQA, 4, 512, 128, CAUSAL),
    }
    batches = (1,) if context.quick else (1, 2, 4)
    return [
        *(
            Case("host", f"host, {label}", partial(host_times, problem))
            for label, problem in timed.items()
        ),
        *(limits_case(batch) for batch in batches),
    ]


def first_use_suite(context: Context) -> list[Case]:
    def first_use(problem: Problem) -> dict[str, Any]:
        script = Path(__file__).with_name("first_use.py")
        command = [sys.executable, str(script), context.bridge_path, json.dumps(problem.config(16))]
        with tempfile.TemporaryDirectory() as cache:
            # NVRTC keeps what it compiled in the driver's cache.
            environment = {
                **os.environ,
                "TRENCADIS_CACHE_DIR": cache,
                "CUDA_CACHE_DISABLE": "1",
            }
            runs = []
            for _ in range(2):  # into an empty cache, then out of it
                done = subprocess.run(command, env=environment, capture_output=True, text=True)
                if done.returncode != 0:
                    raise RuntimeError(done.stderr.strip().splitlines()[-1])
                runs.append(json.loads(done.stdout))
        return {
            "cold_s": runs[0]["attention_s"],
            "warm_s": runs[1]["attention_s"],
            "device_s": runs[1]["device_s"],
        }

    problems = {
        "decode 64 x 1,024": decode(GQA, [1024] * 64),
        "prefill 4 x 1,024 causal": prefill(GQA, 4, 1024, 128, CAUSAL),
    }
    return [
        Case("first_use", label, partial(first_use, problem)) for label, problem in problems.items()
    ]


SUITES: dict[str, Callable[[Context], list[Case]]] = {
    "decode": decode_suite,
    "short": short_suite,
    "skewed": skewed_suite,
    "pages": pages_suite,
    "prefill": prefill_suite,
    "variants": variants_suite,
    "balance": balance_suite,
    "host": host_suite,
    "first_use": first_use_suite,
}
