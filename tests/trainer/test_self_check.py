"""The fixed computation by which a machine that computes wrong values stands apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from trainer.ranks.self_check import checked_results, departures


def test_sound_machines_agree_to_the_bit() -> None:
    state = torch.random.get_rng_state()
    ranks = torch.stack([checked_results() for _ in range(4)])
    assert departures(ranks).tolist() == [0.0] * 4
    assert torch.equal(torch.random.get_rng_state(), state)  # the training's random numbers are not touched


@pytest.mark.parametrize(
    ("where", "name"),
    [(functional, "embedding"), (functional, "linear"), (functional, "silu"), (torch.Tensor, "softmax")],
)
def test_one_wrong_number_of_an_operation_is_seen(where: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One number among hundreds with the sign of its own turned."""
    sound = checked_results()
    right: Callable[..., torch.Tensor] = getattr(where, name)

    def wrong(*arguments: Any, **named: Any) -> torch.Tensor:
        result = right(*arguments, **named)
        signs = torch.ones(result.numel())
        signs[5] = -1.0
        return result * signs.view(result.shape)

    monkeypatch.setattr(where, name, wrong)
    found = departures(torch.stack([sound, sound, checked_results(), sound])).tolist()
    assert found[:2] + found[3:] == [0.0] * 3
    assert found[2] > 1e-3


def test_a_result_that_is_no_number_departs_most() -> None:
    sound = checked_results()
    broken = sound.clone()
    broken[3] = torch.nan
    assert departures(torch.stack([sound, broken, sound])).tolist() == [0.0, pytest.approx(1e6), 0.0]
