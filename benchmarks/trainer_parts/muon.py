"""Muon over a stack of experts against a loop of torch's, and a whole step with it against one with AdamW."""

from __future__ import annotations

import torch

from benchmarks.trainer_parts.shapes import Shape
from benchmarks.trainer_parts.steps import training_of
from contracts.events import Scalar
from kernels.measure import interleave, require_close, speedup
from trainer.config import GroupConfig, MuonConfig, OptimConfig
from trainer.optim import Optimizer

STACKS = ((128, 96, 256), (128, 64, 256), (128, 128, 512))
_LR, _DECAY = 1e-3, 0.1


def measure_stack(stack: tuple[int, int, int], *, rounds: int) -> float:
    """Seconds of torch's loop / ours. Raises AssertionError when the first updates differ."""
    torch.manual_seed(0)
    values, grad = torch.randn(stack), torch.randn(stack)
    group = GroupConfig(optimizer="muon", lr=_LR, weight_decay=_DECAY, beta1=0.95, eps=1e-7)
    muon = MuonConfig(compute="bfloat16")
    ours = Optimizer({"experts": values.clone()}, {"experts": "experts"}, OptimConfig(experts=group), muon, {})
    leaves = [torch.nn.Parameter(matrix.clone()) for matrix in values]
    for leaf, each in zip(leaves, grad, strict=True):
        leaf.grad = each.clone()
    theirs = torch.optim.Muon(leaves, lr=_LR, weight_decay=_DECAY, adjust_lr_fn="match_rms_adamw")

    def our_step() -> object:
        return ours.step([grad], 1.0, 1.0, measure=False)

    our_step()
    theirs.step()  # type: ignore[no-untyped-call]
    moved = [ours.weights["experts"].detach() - values, torch.stack([leaf.detach() for leaf in leaves]) - values]
    require_close(moved[:1], moved[1:], relative=0.1)
    return speedup(interleave({"ours": our_step, "torch": theirs.step}, rounds=rounds), "ours", "torch")


def measure_step(shape: Shape, compute: str, *, rounds: int) -> float:
    """Seconds of a step with Muon for attention and experts / of one with AdamW for all."""
    muon: dict[str, Scalar] = {"muon__compute": "bfloat16"}
    for group in ("attention", "experts"):
        own: dict[str, Scalar] = {"optimizer": "muon", "beta1": 0.95, "eps": 1e-7}
        muon |= {f"optim__{group}__{key}": value for key, value in own.items()}
    steps = {
        "muon": training_of(shape.config(compute, **muon)).advance,
        "adamw": training_of(shape.config(compute)).advance,
    }
    return speedup(interleave(steps, rounds=rounds, warmup=1), "adamw", "muon")
