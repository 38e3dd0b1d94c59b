"""A rank that computes wrong values is named although nothing else shows it."""

from __future__ import annotations

import numpy as np
import pytest

from loops.debug.detectors import self_check
from loops.debug.finding import Finding
from loops.debug.measure import Window, magnitude, readings
from loops.debug.places import on_rank
from loops.debug.view import RunView, make_view

STEPS = np.arange(1, 101)


def view_of(*ranks: np.ndarray) -> RunView:
    values = {f"self_check@rank={rank}": row for rank, row in enumerate(ranks)}
    return make_view("run", STEPS, {"lm_loss": np.full(100, 3.0), **values})


def sound(seed: int) -> np.ndarray:
    """Rounding of another processor, where it differs at all."""
    random = np.random.default_rng(seed)
    return np.where(random.random(100) < 0.5, 0.0, random.uniform(0, 1e-5, 100))


def wrong(since: int, every: int = 1) -> np.ndarray:
    return np.where((since <= STEPS) & ((STEPS - since) % every == 0), 3e-2, 0.0)


def found(*ranks: np.ndarray) -> list[Finding]:
    return self_check.detect(view_of(*ranks))


def test_a_rank_that_computes_wrong_values_is_named() -> None:
    """Shows R801-3.1."""
    (finding,) = found(sound(0), sound(1), wrong(41), sound(3))
    assert finding.onset == (41, 41)
    assert finding.series == ("self_check@rank=2",)
    assert finding.statement == (
        "rank 2 computes wrong values from step 41 on: the same computation on the same numbers departs from the "
        "other ranks' by up to 0.03 of a typical number, at 60 of 60 steps"
    )


def test_a_single_wrong_step_counts() -> None:
    """Such machines are wrong now and then."""
    (finding,) = found(sound(0), sound(1), wrong(41, every=25), sound(3))
    assert "at 3 of 60 steps" in finding.statement


def test_what_goes_to_another_rank_is_read_there() -> None:
    """After an exchange of places the rank is like the normal one, and its partner like the anomalous."""
    (finding,) = found(sound(0), sound(1), wrong(41), sound(3))
    swapped, window = view_of(sound(0), sound(1), sound(3), wrong(41)), Window(lo=51, hi=90)
    references = np.array([finding.probe.anomalous]), np.array([finding.probe.normal]), np.array(finding.probe.noise)
    for rank, measure in ((2, 0.0), (3, 1.0)):
        read = readings(swapped, on_rank(finding.probe, rank), window)
        assert read is not None
        assert magnitude(read, *references).mean() == pytest.approx(measure, abs=1e-3)


@pytest.mark.parametrize(
    "ranks",
    [
        (sound(0), sound(1), sound(2), sound(3)),
        (wrong(41), wrong(41), sound(2), sound(3)),
        (wrong(41), sound(1)),
    ],
)
def test_silence(ranks: tuple[np.ndarray, ...]) -> None:
    """Rounding is no fault; and without a majority nobody can say who is wrong."""
    assert found(*ranks) == []
