"""The router: the same body on every backend."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from contracts.errors import UserInputError
from kernels.router import RouterSettings, Routing, balance_loss, max_violation, reference, route

SETTINGS = [
    RouterSettings(top_k=k, score=score, renormalise=norm, scale=scale)  # type: ignore[arg-type]
    for (score, norm), (k, scale) in itertools.product(
        [("softmax", True), ("softmax", False), ("sigmoid", True), ("sigmoid", False)], [(3, 2.5)]
    )
]


def routed(
    logits: Tensor, settings: RouterSettings, weights: list[Tensor], backend: str, device: str, **more: Any
) -> tuple[Routing, Tensor]:
    """The routing and the gradient of a weighted sum of everything differentiable."""
    leaf = logits.detach().to(device).requires_grad_()
    moved = {name: value.to(device) for name, value in more.items()}
    routing = route(leaf, settings, backend=backend, **moved)
    parts = (routing.gates, routing.mean_scores, routing.z_loss)
    sum((part * w.to(device, part.dtype)).sum() for part, w in zip(parts, weights, strict=True)).backward()
    assert leaf.grad is not None
    return Routing(*(value.detach().cpu() for value in routing)), leaf.grad.cpu()


def weights_for(tokens: int, experts: int, top_k: int) -> list[Tensor]:
    return [torch.randn(tokens, top_k), torch.randn(experts), torch.tensor(0.3)]


@pytest.mark.parametrize("masked", [False, True], ids=["all", "padding"])
@pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: f"{s.score}-{s.renormalise}")
def test_routing_and_gradient(settings: RouterSettings, masked: bool, backend: str, device: str) -> None:
    logits, weights = torch.randn(37, 13) * 3, weights_for(37, 13, settings.top_k)
    more = {"bias_E": torch.randn(13) * 0.2} | ({"valid_N": torch.rand(37) > 0.3} if masked else {})
    got, gradient = routed(logits, settings, weights, backend, device, **more)
    want, expected = routed(logits.double(), settings, weights, "reference", "cpu", **more)
    assert torch.equal(got.experts, want.experts)
    assert torch.equal(got.loads, want.loads)
    for mine, theirs in ((got.gates, want.gates), (got.mean_scores, want.mean_scores), (got.z_loss, want.z_loss)):
        torch.testing.assert_close(mine.double(), theirs, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(gradient.double(), expected, rtol=1e-4, atol=1e-6)
    if masked:
        padding = ~more["valid_N"]
        assert (got.experts[padding] == -1).all()
        assert not got.gates[padding].any()
        assert not gradient[padding].any()
    assert got.loads.sum() == 3 * (int(more["valid_N"].sum()) if masked else 37)


@pytest.mark.parametrize("score", ["softmax", "sigmoid"])
def test_ties_go_to_the_lowest_index(score: str, backend: str, device: str) -> None:
    logits = torch.tensor([[0.0] * 9, [1, 2, 1, 2, 2, 0, 0, 1, 2], [-0.0, 0.0, -0.0, 0.0, -5, -5, -5, -5, -5]])
    settings = RouterSettings(top_k=5, score=score)  # type: ignore[arg-type]
    got = route(logits.to(device), settings, backend=backend).experts.tolist()
    assert got == [[0, 1, 2, 3, 4], [1, 3, 4, 8, 0], [0, 1, 2, 3, 4]]


def test_bias_moves_the_choice_and_not_the_gates(backend: str, device: str) -> None:
    logits = torch.tensor([[3.0, 2.0, 1.0, 0.0]], device=device)
    settings = RouterSettings(top_k=2, renormalise=False)
    routing = route(logits, settings, bias_E=torch.tensor([0.0, 0.0, 0.0, 9.0], device=device), backend=backend)
    assert routing.experts.tolist() == [[3, 0]]
    torch.testing.assert_close(routing.gates, torch.softmax(logits, 1)[:, [3, 0]])


@pytest.mark.parametrize("score", ["softmax", "sigmoid"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_bad_token_changes_no_other(value: float, score: str, backend: str, device: str) -> None:
    logits, settings = torch.randn(6, 8), RouterSettings(top_k=2, score=score)  # type: ignore[arg-type]
    clean = route(logits.to(device), settings, backend=backend)
    logits[2, 5] = value
    bad = route(logits.to(device), settings, backend=backend)
    others = [0, 1, 3, 4, 5]
    assert bad.gates[2].isnan().all() == (score == "softmax")
    assert not bad.z_loss.isfinite()
    assert bad.experts.cpu().tolist() == route(logits, settings, backend="reference").experts.tolist()
    assert len(set(bad.experts[2].tolist())) == 2
    assert torch.equal(bad.gates[others], clean.gates[others])
    assert torch.equal(bad.experts[others], clean.experts[others])


def test_no_tokens_and_strided_bf16_logits(backend: str, device: str) -> None:
    settings = RouterSettings(top_k=2)
    empty = route(torch.zeros(0, 8, device=device), settings, backend=backend)
    assert empty.loads.tolist() == [0] * 8
    assert float(empty.z_loss) == 0.0
    assert not empty.mean_scores.any()
    logits = torch.randn(8, 9).to(torch.bfloat16).t()
    got = route(logits.to(device), settings, backend=backend)
    want = route(logits.double(), settings, backend="reference")
    assert torch.equal(got.experts.cpu(), want.experts)
    assert got.gates.dtype == torch.float32


def test_gradients_of_the_reference() -> None:
    logits = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    for settings in SETTINGS:
        for bias, valid in ((None, None), (torch.randn(5), torch.tensor([True, False, True, True]))):

            def differentiable(
                x: Tensor, s: RouterSettings = settings, b: Tensor | None = bias, v: Tensor | None = valid
            ) -> tuple[Tensor, Tensor, Tensor]:
                routing = reference.route(x, b, v, s)
                return routing.gates, routing.mean_scores, routing.z_loss

            assert torch.autograd.gradcheck(differentiable, (logits,))


def test_balance_statistics() -> None:
    loads, scores = torch.tensor([4, 4, 4, 4]), torch.full((4,), 0.25)
    assert float(balance_loss(loads, scores)) == pytest.approx(1.0)
    assert float(balance_loss(torch.tensor([16, 0, 0, 0]), torch.tensor([0.7, 0.1, 0.1, 0.1]))) == pytest.approx(2.8)
    assert float(max_violation(loads)) == 0.0
    assert float(max_violation(torch.tensor([16, 0, 0, 0]))) == pytest.approx(3.0)


def test_triton_says_how_many_experts_it_takes() -> None:
    pytest.importorskip("triton")
    with pytest.raises(UserInputError, match="5000 experts"):
        route(torch.zeros(2, 5000), RouterSettings(top_k=1), backend="triton")


def test_impossible_calls_say_what_to_do() -> None:
    with pytest.raises(UserInputError, match="top_k 9 of 8"):
        route(torch.zeros(2, 8), RouterSettings(top_k=9))
    with pytest.raises(UserInputError, match="bias"):
        route(torch.zeros(2, 8), RouterSettings(top_k=1), bias_E=torch.zeros(7))
