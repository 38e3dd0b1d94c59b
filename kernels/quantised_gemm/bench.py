"""What the emulation costs, and how far each backward format is from exact gradients (RC2-8.4)."""

from __future__ import annotations

import sys

import torch
from torch import Tensor

from kernels.grouped_gemm import grouped_gemm
from kernels.measure import interleave, speedup
from kernels.quantised_gemm import Precision, quantised_grouped_gemm
from kernels.quantised_gemm.study import gradient_error


def measure(*, rounds: int, rows: int = 2048, experts: int = 8) -> float:
    """Speed of the emulated product against the plain one, forward and backward (below one: it is an emulation)."""
    torch.manual_seed(0)
    x, w = torch.randn(rows, 256, requires_grad=True), torch.randn(experts, 256, 192, requires_grad=True)
    dy = torch.randn(rows, 192)
    offsets = (torch.arange(1, experts + 1) * (rows // experts)).to(torch.int32)

    def step(y: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(y, (x, w), dy)

    candidates = {
        "ours": lambda: step(quantised_grouped_gemm(x, w, offsets, precision=Precision())),
        "plain": lambda: step(grouped_gemm(x, w, offsets)),
    }
    return speedup(interleave(candidates, rounds=rounds), "ours", "plain")


def main() -> None:
    torch.set_num_threads(1)
    sys.stdout.write(f"{measure(rounds=3):.3f} x the plain product\n")
    for form in ("bf16", "mxfp8", "nvfp4"):
        sys.stdout.write(f"{form} backward: {gradient_error(form, seed=1)}\n")


if __name__ == "__main__":
    main()
