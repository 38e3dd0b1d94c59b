"""Routed experts by the kernels package, behind `numerics.experts`. Shows RC2-8.2 and RC2-8.4 in the trainer."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from small_training import Trace, Trainings, small_config

from contracts.events import Scalar
from trainer.config import ExpertNumerics
from trainer.expert_kernels import kernel_experts
from trainer.experts import Assignments, routed_experts

BF16: dict[str, Scalar] = {f"numerics__experts__{flow}": "bf16" for flow in ("dispatch", "forward", "backward")}
# Largest error of results and gradients, as a share of the largest value.
NUMERICS = {
    "kernels": (ExpertNumerics(products="kernels"), 1e-5),
    "bf16": (ExpertNumerics(products="quantised", dispatch="bf16", forward="bf16", backward="bf16"), 0.03),
    "report": (ExpertNumerics(products="quantised"), 0.4),
}


@pytest.mark.parametrize("name", NUMERICS)
def test_kernel_experts_against_the_trainers_own(name: str) -> None:
    """Values and all gradients; one expert gets no token."""
    numerics, bound = NUMERICS[name]
    generator = torch.Generator().manual_seed(1)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).requires_grad_()

    choice_KT = torch.stack([torch.arange(40) % 3, (torch.arange(40) + 1) % 3])
    chosen_ET = torch.zeros(4, 40).scatter_(0, choice_KT, 1.0)
    leaves = [random(40, 32), random(2, 40), random(4, 16, 32), random(4, 16, 32), random(4, 16, 32)]
    x, weight, *matrices = leaves
    ours = kernel_experts(x, weight, choice_KT, (matrices[0], matrices[1], matrices[2]), numerics)
    expected = routed_experts(x, weight, Assignments.sort(choice_KT, chosen_ET), *matrices)
    grad = random(40, 32).detach()
    pairs = zip(
        (ours, *torch.autograd.grad(ours, leaves, grad)),
        (expected, *torch.autograd.grad(expected, leaves, grad)),
        strict=True,
    )
    for mine, theirs in pairs:
        assert float((mine - theirs).detach().abs().max()) <= bound * float(theirs.detach().abs().max())


@pytest.fixture
def trained(new_trainings: Callable[[], Trainings]) -> Callable[..., Trace]:
    def train(**overrides: Scalar) -> Trace:
        return new_trainings().here(small_config(steps=30, **overrides))

    return train


def test_a_quantised_training_is_repeatable_and_close_to_bf16(trained: Callable[..., Trace]) -> None:
    quantised, again = (trained(numerics__experts__products="quantised") for _ in range(2))
    assert quantised.metrics == again.metrics
    bf16 = trained(numerics__experts__products="quantised", **BF16)
    first, losses = quantised.metrics[1]["lm_loss"], [t.metrics[30]["lm_loss"] for t in (quantised, bf16)]
    assert max(losses) < first - 1
    assert losses[0] != losses[1]
    assert abs(losses[0] - losses[1]) < 0.05


def test_the_fused_kernel_trains_as_the_default(trained: Callable[..., Trace]) -> None:
    kernels, torch_ = trained(numerics__experts__products="kernels"), trained()
    for step in (1, 30):
        assert kernels.metrics[step]["lm_loss"] == pytest.approx(torch_.metrics[step]["lm_loss"], abs=2e-3)
