"""Per-document attention against what a framework does with a packed row: a boolean mask over all its tokens."""

from __future__ import annotations

import sys

import torch
from torch import Tensor
from torch.nn import functional

from kernels.measure import interleave, require_close, speedup
from kernels.packed_attention import packed_attention

LENGTHS = (700, 40, 512, 96, 333, 64, 900, 201, 128, 450, 610, 62)
"""Twelve documents in 4096 tokens."""


def inputs(dtype: torch.dtype, heads: int = 8, size: int = 32) -> tuple[list[Tensor], Tensor, Tensor]:
    torch.manual_seed(0)
    total = sum(LENGTHS)
    tensors = [torch.randn(total, heads, size).to(dtype).requires_grad_() for _ in range(3)]
    ends = torch.tensor(LENGTHS).cumsum(0).to(torch.int32)
    return tensors, ends, torch.randn(total, heads, size).to(dtype)


def masked(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """The peer: torch's attention with the documents' mask, as transformers builds it for position ids."""
    q, k, v = (x.transpose(0, 1).unsqueeze(0) for x in (q, k, v))
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask).squeeze(0).transpose(0, 1)


def measure(dtype: torch.dtype, *, rounds: int) -> float:
    """Speed forward and backward against the peer."""
    (q, k, v), ends, dy = inputs(dtype)
    document = torch.repeat_interleave(torch.arange(len(LENGTHS)), torch.tensor(LENGTHS))
    mask = (document[:, None] == document) & torch.ones(len(document), len(document), dtype=torch.bool).tril()

    def ours() -> list[Tensor]:
        y = packed_attention(q, k, v, ends)
        return [y.detach(), *torch.autograd.grad(y, (q, k, v), dy)]

    def peer() -> list[Tensor]:
        y = masked(q, k, v, mask)
        return [y.detach(), *torch.autograd.grad(y, (q, k, v), dy)]

    require_close(ours(), peer(), relative=1e-3 if dtype == torch.float32 else 4e-2)
    return speedup(interleave({"ours": ours, "masked": peer}, rounds=rounds), "ours", "masked")


def main() -> None:
    torch.set_num_threads(1)
    for dtype in (torch.float32, torch.bfloat16):
        sys.stdout.write(f"{dtype}: {measure(dtype, rounds=5):.2f} x masked\n")


if __name__ == "__main__":
    main()
