"""Tensors of a case, our side of it, and the float32 attention that it is held against."""

from __future__ import annotations

import math
from types import TracebackType

import torch

from bridge import Bridge, Engine
from problem import CONTIGUOUS, CONTIGUOUS_BLOCK, Problem, alibi_slopes, indptr
from timing import Call

CHECKED_ROWS = 16  # of a request


class TensorSet:
    """One set of inputs: queries, and keys and values as one line of tokens that every page size
    and the dense peers view as theirs."""

    def __init__(self, problem: Problem, tokens: int) -> None:
        def normal(rows: int, heads: int) -> torch.Tensor:
            shape = (rows, heads, problem.head_dim)
            return torch.randn(shape, dtype=torch.bfloat16, device="cuda")

        self.q = normal(problem.q_tokens, problem.qo_heads)
        self.k = normal(tokens, problem.kv_heads)
        self.v = normal(tokens, problem.kv_heads)


def tensor_sets(problem: Problem, tokens: int, rotate_bytes: int = 0) -> list[TensorSet]:
    """Disjoint sets that together exceed `rotate_bytes`, so that none is found in L2. tokens: of
    the keys and values of a set."""
    count = max(1, math.ceil(rotate_bytes / problem.io_bytes))
    return [TensorSet(problem, tokens) for _ in range(count)]


class Ours:
    """A problem planned over pages in random order, bound to every set."""

    def __init__(
        self,
        bridge: Bridge,
        problem: Problem,
        page_size: int,
        sets: list[TensorSet],
        limits: dict[str, int] | None = None,
        plan: dict[str, str] | None = None,
    ) -> None:
        self.problem, self.page_size, self.sets = problem, page_size, sets
        self._indptr = indptr(problem.pages(page_size))
        self._pages: list[int] | None = None
        if page_size != CONTIGUOUS:
            order = torch.Generator().manual_seed(2)
            self._pages = torch.randperm(self._indptr[-1], generator=order).tolist()
        self.engine = Engine(bridge, problem.config(page_size, limits, plan))
        if page_size == CONTIGUOUS and problem.batch == 1:
            self.engine.plan_single(problem.q_tokens, problem.kv_lens[0])
        else:
            self.engine.plan(indptr(problem.q_lens), self._indptr, self._pages, problem.kv_lens)
        extra = []
        if problem.variant.alibi:
            slopes = alibi_slopes(problem.qo_heads)
            extra.append(torch.tensor(slopes, dtype=torch.float32, device="cuda"))
        self.out = torch.full_like(sets[0].q, math.nan)
        self.bindings = [
            self.engine.bind(
                s.q,
                self._pool(s.k),
                self._pool(s.v),
                self.out if s is sets[0] else s.q.clone(),
                extra,
            )
            for s in sets
        ]
        torch.cuda.synchronize()  # the plan is there before a graph is captured

    def _pool(self, line: torch.Tensor) -> torch.Tensor:
        if self.page_size == CONTIGUOUS:
            return line
        pages = self._indptr[-1]
        return line[: pages * self.page_size].view(pages, self.page_size, *line.shape[1:])

    def calls(self) -> list[Call]:
        def make(binding: int) -> Call:
            return lambda: self.engine.run(binding, torch.cuda.current_stream().cuda_stream)

        return [make(binding) for binding in self.bindings]

    def error(self) -> float | None:
        """‖o - reference‖ / ‖reference‖ over a few rows of the first, the longest and the last
        request, of what the last run over the first set left. None: it is no number, as where a row
        was not written."""
        lens = self.problem.kv_lens
        requests = sorted({0, lens.index(max(lens)), len(lens) - 1})
        wrong, size = 0.0, 0.0
        for request in requests:
            got, expected = self._rows(request)
            wrong += float((got - expected).square().sum())
            size += float(expected.square().sum())
        error = math.sqrt(wrong / size)
        return error if math.isfinite(error) else None

    def _rows(self, request: int) -> tuple[torch.Tensor, torch.Tensor]:
        problem = self.problem
        q_len, kv_len = problem.q_lens[request], problem.kv_lens[request]
        step = max(1, math.ceil(q_len / CHECKED_ROWS))
        rows = torch.arange(q_len - 1, -1, -step, device="cuda")  # the last row sees most
        first = sum(problem.q_lens[:request])
        keys, values = (
            self._keys(line, request)[:kv_len] for line in (self.sets[0].k, self.sets[0].v)
        )
        positions = rows + (kv_len - q_len)
        expected = reference(problem, self.sets[0].q[first + rows], keys, values, positions)
        return self.out[first + rows].float(), expected

    def _keys(self, line: torch.Tensor, request: int) -> torch.Tensor:
        begin, end = self._indptr[request : request + 2]
        if self._pages is None:
            return line[begin * CONTIGUOUS_BLOCK : end * CONTIGUOUS_BLOCK]
        pages = torch.tensor(self._pages[begin:end], device=line.device)
        return self._pool(line)[pages].flatten(0, 1)

    def __enter__(self) -> Ours:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.engine.close()


def reference(
    problem: Problem, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, positions: torch.Tensor
) -> torch.Tensor:
    """float32 attention of some rows of a request. q: [rows, H_q, D], k, v: [keys, H_kv, D],
    positions: [rows], of the rows among the keys."""
    variant = problem.variant
    rows, group = len(q), problem.qo_heads // problem.kv_heads
    grouped = q.float().view(rows, problem.kv_heads, group, problem.head_dim)
    logits = torch.einsum("rkgd,lkd->rkgl", grouped, k.float()) / math.sqrt(problem.head_dim)
    if variant.soft_cap:
        logits = variant.soft_cap * torch.tanh(logits / variant.soft_cap)
    distance = torch.arange(len(k), device=q.device)[None, :] - positions[:, None]  # [rows, keys]
    if variant.alibi:
        slopes = torch.tensor(alibi_slopes(problem.qo_heads), device=q.device)
        bias = slopes.view(1, problem.kv_heads, group, 1) * distance[:, None, None, :]
        logits = logits + bias
    hidden = torch.zeros_like(distance, dtype=torch.bool)
    if variant.causal:
        hidden |= distance > 0
    if variant.window:
        hidden |= distance <= -variant.window
    logits = logits.masked_fill(hidden[:, None, None, :], -math.inf)
    out = torch.einsum("rkgl,lkd->rkgd", torch.softmax(logits, -1), v.float())
    return out.reshape(rows, problem.qo_heads, problem.head_dim)
