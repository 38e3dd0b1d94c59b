"""Batched Newton-Schulz against torch.optim.Muon's function called for each matrix."""

from __future__ import annotations

import sys

import torch
from torch import Tensor
from torch.optim import _muon

from kernels.measure import interleave, require_close, speedup
from kernels.newton_schulz import newton_schulz
from kernels.newton_schulz.settings import COEFFICIENTS, EPSILON, STEPS


def measure(*, rounds: int, experts: int = 128, rows: int = 96, cols: int = 256) -> float:
    """Speed for a stack of experts in bf16."""
    torch.manual_seed(0)
    update = torch.randn(experts, rows, cols)

    def peer() -> Tensor:
        return torch.stack([_muon._zeropower_via_newtonschulz(m, COEFFICIENTS, STEPS, EPSILON) for m in update])

    require_close([newton_schulz(update)], [peer()], relative=0.05)
    return speedup(interleave({"ours": lambda: newton_schulz(update), "loop": peer}, rounds=rounds), "ours", "loop")


def main() -> None:
    torch.set_num_threads(1)
    sys.stdout.write(f"{measure(rounds=5):.2f} x a loop over matrices\n")


if __name__ == "__main__":
    main()
