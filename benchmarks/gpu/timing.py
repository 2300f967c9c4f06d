"""Times of CUDA graphs, the engines of a case taken in turns."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import torch

Call = Callable[[], object]  # queues one attention on the current stream

MAX_GRAPH_RUNS = 800


@dataclass(frozen=True)
class Timing:
    us: float  # median of one attention
    min_us: float
    max_us: float

    def to_json(self) -> dict[str, float]:
        return asdict(self)


@dataclass(frozen=True)
class Captured:
    graph: torch.cuda.CUDAGraph
    runs: int  # attentions in it

    def replay_us(self) -> float:
        """Of one attention."""
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        self.graph.replay()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) * 1e3 / self.runs


def _capture(calls: Sequence[Call], rounds: int) -> Captured:
    stream = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        for _ in range(rounds):
            for call in calls:
                call()
    return Captured(graph, rounds * len(calls))


def capture(calls: Sequence[Call], target_ms: float) -> Captured:
    """A graph of about `target_ms` that makes every call equally often, in turn."""
    for call in calls[:2]:  # compiles and allocates what a capture must not
        call()
    torch.cuda.synchronize()
    once = _capture(calls, 1)
    once.replay_us()
    round_ms = once.replay_us() * len(calls) / 1e3
    rounds = min(math.ceil(target_ms / max(round_ms, 1e-3)), MAX_GRAPH_RUNS // len(calls))
    return _capture(calls, rounds) if rounds > 1 else once


def measure(engines: dict[str, Captured], repeats: int, idle_ms: float = 0.0) -> dict[str, Timing]:
    """Each repeat replays every engine's graph once, after `idle_ms` of rest, in which the card
    cools and its clock recovers."""
    samples: dict[str, list[float]] = {name: [] for name in engines}
    for captured in engines.values():
        captured.replay_us()
    for _ in range(repeats):
        for name, captured in engines.items():
            if idle_ms > 0:
                time.sleep(idle_ms / 1e3)
            samples[name].append(captured.replay_us())
    return {
        name: Timing(statistics.median(times), min(times), max(times))
        for name, times in samples.items()
    }
