"""RMSNorm and RoPE against the same in plain torch (the reference with autograd), forward and backward."""

from __future__ import annotations

import sys
from functools import partial

import torch
from torch import Tensor

from kernels.measure import interleave, require_close, speedup
from kernels.norm_rope import norm_rope, rope_tables


def measure(dtype: torch.dtype, *, rounds: int, tokens: int = 4096, heads: int = 8, size: int = 64) -> float:
    torch.manual_seed(0)
    x = torch.randn(tokens, heads, size).to(dtype).requires_grad_()
    weight = torch.rand(size).to(dtype).requires_grad_()
    dy, tables = torch.randn(tokens, heads, size).to(dtype), rope_tables(torch.arange(tokens), size, base=1e6)

    def step(backend: str) -> list[Tensor]:
        y = norm_rope(x, weight, *tables, backend=backend)
        return [y.detach(), *torch.autograd.grad(y, (x, weight), dy)]

    require_close(step("cpu"), step("reference"), relative=1e-4 if dtype == torch.float32 else 2e-2)
    candidates = {name: partial(step, name) for name in ("cpu", "reference")}
    return speedup(interleave(candidates, rounds=rounds), "cpu", "reference")


def main() -> None:
    torch.set_num_threads(1)
    for dtype in (torch.float32, torch.bfloat16):
        sys.stdout.write(f"{dtype}: {measure(dtype, rounds=7):.2f} x plain torch\n")


if __name__ == "__main__":
    main()
