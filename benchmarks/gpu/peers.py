"""PyTorch's own attention on dense keys of equal lengths: SDPA's backends and FlexAttention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from problem import Problem, Variant
from timing import Call

SDPA = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}

Dense = tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # q, k, v: (B, H, S, D)


def dense(problem: Problem, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Dense:
    """(B, S, H, D) storage as transposed views. Tokens beyond the batch's are left out."""

    def view(tensor: torch.Tensor, length: int) -> torch.Tensor:
        rows = tensor[: problem.batch * length]
        return rows.view(problem.batch, length, *tensor.shape[1:]).transpose(1, 2)

    if len({*problem.q_lens}) > 1 or len({*problem.kv_lens}) > 1:
        raise ValueError("dense peers need equal lengths")
    q_len, kv_len = problem.q_lens[0], problem.kv_lens[0]
    return view(q, q_len), view(k, kv_len), view(v, kv_len)


def sdpa(name: str, problem: Problem, tensors: Dense) -> Call:
    if problem.variant not in (Variant(), Variant(causal=True)):
        raise ValueError("SDPA has no such variant")
    backend, causal = SDPA[name], problem.variant.causal
    grouped = problem.qo_heads != problem.kv_heads

    def call() -> torch.Tensor:
        with torch.no_grad(), sdpa_kernel(backend):
            return F.scaled_dot_product_attention(*tensors, is_causal=causal, enable_gqa=grouped)

    return call


def _score_mod(problem: Problem) -> Callable[..., Any] | None:
    variant, heads = problem.variant, problem.qo_heads
    if variant.soft_cap and variant.alibi:
        raise ValueError("one score modification at a time")
    if variant.soft_cap:
        cap = variant.soft_cap
        return lambda score, b, h, q, k: cap * torch.tanh(score / cap)
    if variant.alibi:
        return lambda score, b, h, q, k: score + torch.exp2(-((h + 1) * 8.0 / heads)) * (k - q)
    return None


def _block_mask(problem: Problem, device: torch.device) -> Any:
    q_len, kv_len = problem.q_lens[0], problem.kv_lens[0]
    offset, window = kv_len - q_len, problem.variant.window
    if window:
        rule = lambda b, h, q, k: (q + offset >= k) & (q + offset - k < window)  # noqa: E731
    elif problem.variant.causal or q_len == 1:
        # A mask that hides nothing lets FlexAttention split the keys of a decode, which it does not
        # without one.
        rule = lambda b, h, q, k: q + offset >= k  # noqa: E731
    else:
        return None
    return create_block_mask(rule, None, None, q_len, kv_len, device=device)


def flex(problem: Problem) -> Callable[[Dense], Call]:
    """Compiles once; the function that it returns makes a call for each set of tensors."""
    torch._dynamo.config.recompile_limit = 1000
    torch._dynamo.config.accumulated_recompile_limit = 100000
    compiled = torch.compile(flex_attention, dynamic=False, fullgraph=True)
    score_mod = _score_mod(problem)
    block_mask = None
    grouped = problem.qo_heads != problem.kv_heads

    def bind(tensors: Dense) -> Call:
        nonlocal block_mask
        if block_mask is None:
            block_mask = _block_mask(problem, tensors[0].device)

        def call() -> torch.Tensor:
            with torch.no_grad():
                return compiled(
                    *tensors, score_mod=score_mod, block_mask=block_mask, enable_gqa=grouped
                )

        return call

    return bind
