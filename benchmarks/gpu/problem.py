"""What is computed, and the counts that a time is judged by. No torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

ELEMENT_BYTES = 2  # bfloat16

# Contiguous keys are planned in blocks of this many tokens, which divides every length here, so
# that a tile never has to look for its rows.
CONTIGUOUS_BLOCK = 128
CONTIGUOUS = 0  # as a page size


@dataclass(frozen=True)
class Variant:
    causal: bool = False
    window: int = 0  # keys that a row sees, itself included; 0: all
    soft_cap: float = 0.0
    alibi: bool = False

    def options(self) -> dict[str, Any]:
        """As spec_text.h names them; what is off is left out."""
        options: dict[str, Any] = {}
        if self.causal:
            options["causal"] = True
        if self.window:
            options["window_left"] = self.window - 1
        if self.soft_cap:
            options["soft_cap"] = self.soft_cap
        if self.alibi:
            options["alibi"] = True
        return options


def visible_pairs(queries: int, keys: int, variant: Variant) -> float:
    """(Query, key) pairs of a request. Half of all for causal, as the field counts; a window's are
    exact, since half says nothing there."""
    if variant.window:
        ends = (keys - queries + row + 1 for row in range(queries))
        return float(sum(min(end, variant.window) for end in ends))
    return queries * keys / (2 if variant.causal else 1)


@dataclass(frozen=True)
class Problem:
    qo_heads: int
    kv_heads: int
    head_dim: int
    q_lens: tuple[int, ...]
    kv_lens: tuple[int, ...]
    variant: Variant = Variant()

    @property
    def batch(self) -> int:
        return len(self.kv_lens)

    @property
    def q_tokens(self) -> int:
        return sum(self.q_lens)

    @property
    def io_bytes(self) -> int:
        """Keys and values once, queries and outputs."""
        kv = 2 * sum(self.kv_lens) * self.kv_heads
        return (kv + 2 * self.q_tokens * self.qo_heads) * self.head_dim * ELEMENT_BYTES

    @property
    def flops(self) -> float:
        pairs = sum(
            visible_pairs(q, k, self.variant)
            for q, k in zip(self.q_lens, self.kv_lens, strict=True)
        )
        return 4.0 * pairs * self.qo_heads * self.head_dim

    def pages(self, page_size: int) -> list[int]:
        """Blocks of each request."""
        block = page_size or CONTIGUOUS_BLOCK
        if page_size == CONTIGUOUS and any(k % block for k in self.kv_lens[:-1]):
            raise ValueError(f"contiguous lengths must be multiples of {block}")
        return [math.ceil(k / block) for k in self.kv_lens]

    def pool_tokens(self, page_size: int) -> int:
        return sum(self.pages(page_size)) * (page_size or CONTIGUOUS_BLOCK)

    def limits(self, page_size: int) -> dict[str, int]:
        """The tightest that admit the problem; a graph needs some."""
        return {
            "max_batch": self.batch,
            "max_qo_tokens": self.q_tokens,
            "max_pages": sum(self.pages(page_size)),
            "max_kv_tokens": max(self.kv_lens),
        }

    def config(
        self,
        page_size: int,
        limits: dict[str, int] | None = None,
        plan: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        """For Engine."""
        return {
            "spec": {"head_dim": self.head_dim, "dtype": "bf16", **self.variant.options()},
            "qo_heads": self.qo_heads,
            "kv_heads": self.kv_heads,
            "page_size": page_size or CONTIGUOUS_BLOCK,
            "limits": limits or self.limits(page_size),
            "plan": plan or {},
        }


def decode(heads: tuple[int, int], kv_lens: Sequence[int], head_dim: int = 128) -> Problem:
    return Problem(*heads, head_dim, (1,) * len(kv_lens), tuple(kv_lens))


def prefill(
    heads: tuple[int, int], batch: int, tokens: int, head_dim: int, variant: Variant
) -> Problem:
    return Problem(*heads, head_dim, (tokens,) * batch, (tokens,) * batch, variant)


def indptr(lengths: Sequence[int]) -> list[int]:
    return [0, *accumulate(lengths)]


def alibi_slopes(heads: int) -> list[float]:
    return [2.0 ** (-8.0 * (head + 1) / heads) for head in range(heads)]
