"""The router against the same steps in plain torch (the reference with autograd), forward and backward."""

from __future__ import annotations

import sys
from functools import partial

import torch
from torch import Tensor

from kernels.measure import interleave, require_close, speedup
from kernels.router import RouterSettings, route


def measure(*, rounds: int, tokens: int = 4096, experts: int = 128) -> float:
    """Speed with sigmoid scores, top-8 and a bias."""
    torch.manual_seed(0)
    logits = torch.randn(tokens, experts, requires_grad=True)
    settings, bias = RouterSettings(top_k=8, score="sigmoid"), torch.randn(experts) / 10
    weights = torch.randn(tokens, 8)

    def step(backend: str) -> list[Tensor]:
        routing = route(logits, settings, bias_E=bias, backend=backend)
        total = (routing.gates * weights).sum() + routing.mean_scores.square().sum() + routing.z_loss
        return [routing.gates.detach(), *torch.autograd.grad(total, logits)]

    require_close(step("cpu"), step("reference"), relative=1e-4)
    candidates = {name: partial(step, name) for name in ("cpu", "reference")}
    return speedup(interleave(candidates, rounds=rounds), "cpu", "reference")


def main() -> None:
    torch.set_num_threads(1)
    sys.stdout.write(f"{measure(rounds=7):.2f} x plain torch\n")


if __name__ == "__main__":
    main()
