"""Equations (1) and (2) with intervals and refusals. Shows R801-4.9, R801-4.10, R801-4.11, R801-4.12."""

from __future__ import annotations

import numpy as np
import pytest

from contracts.errors import UserInputError
from loops.potential.crossing import crossing
from loops.potential.learnability import Refusal, data_needed, learnability, saving

BUDGETS = [30.0 * 2**power for power in range(8)]
X = np.log10(np.array(BUDGETS) / BUDGETS[0])


def scores(start: float, slope: float, *, seeds: int = 5, noise: float = 0.5, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return start + slope * X + rng.normal(0, noise, (seeds, 1)) + rng.normal(0, noise, (seeds, X.size))


def test_known_line_is_recovered() -> None:
    found = learnability(BUDGETS, scores(31.0, 8.62))
    assert found.start.low < 31.0 < found.start.high
    assert found.slope.low < 8.62 < found.slope.high
    assert found.slope.high - found.slope.low < 2.0
    assert found.bend_p > 0.01


def test_slope_is_that_of_least_squares() -> None:
    data = scores(31.0, 8.62)
    expected = np.polyfit(np.tile(X, 5), data.reshape(-1), 1)
    found = learnability(BUDGETS, data)
    assert found.slope.value == pytest.approx(expected[0])
    assert found.start.value == pytest.approx(expected[1])
    assert found.first_score == pytest.approx(data[:, 0].mean())


def test_data_needed_and_what_is_saved() -> None:
    slow = data_needed(BUDGETS, scores(40.0, 3.33, seed=1), 46.0)
    fast = data_needed(BUDGETS, scores(31.0, 8.62, seed=2), 46.0)
    assert slow.amount is not None
    assert fast.amount is not None
    assert fast.amount.low < 30.0 * 10 ** (15 / 8.62) < fast.amount.high
    ratio = saving(slow, fast).ratio
    assert ratio is not None
    assert ratio.low < 10 ** (6 / 3.33 - 15 / 8.62) < ratio.high


@pytest.mark.parametrize(
    ("data", "target", "why"),
    [
        (scores(40.0, -2.0), 50.0, Refusal.NO_SLOPE),
        (scores(30.0, 3.0), 60.0, Refusal.EXTRAPOLATED),
        (scores(30.0, 8.0), 101.0, Refusal.ABOVE_CEILING),
        (scores(30.0, 0.0) + 12.0 * (1 - np.exp(-4 * X)), 43.0, Refusal.SATURATED),
    ],
)
def test_refuses_and_says_why(data: np.ndarray, target: float, why: Refusal) -> None:
    found = data_needed(BUDGETS, data, target)
    assert found.amount is None
    assert found.refusal == why.sentence
    assert found.refusal in saving(found, found).refusal


def test_base_among_the_points_is_refused() -> None:
    with pytest.raises(UserInputError, match="untuned base"):
        learnability([0.0, *BUDGETS[1:]], scores(30.0, 8.0))


def test_one_seed_has_no_interval() -> None:
    with pytest.raises(UserInputError, match="1 seed"):
        learnability(BUDGETS, scores(30.0, 8.0, seeds=1))


def test_noisy_slope_leaves_the_amount_unbounded_instead_of_exact() -> None:
    found = data_needed(BUDGETS, scores(30.0, 1.0, seeds=2, noise=3.0, seed=5), 31.0)
    assert found.amount is None or found.amount.high == np.inf


def test_crossing_is_confirmed_by_measured_scores() -> None:
    found = crossing(BUDGETS, scores(40.0, 3.33, seed=1), scores(34.0, 9.0, seed=2))
    assert found.budget is not None
    assert found.budget.low < 30.0 * 10 ** (6 / 5.67) < found.budget.high
    assert found.is_measured
    assert found.behind < found.budget.value < found.ahead


def test_parallel_lines_do_not_cross() -> None:
    found = crossing(BUDGETS, scores(40.0, 5.0, seed=1), scores(38.0, 5.0, seed=2))
    assert found.budget is None or not found.is_measured


def test_published_slopes_have_the_published_ratio() -> None:
    """BFCL Full of the report: slopes 8.62 and 3.33, about 2.6 times."""
    one, other = (learnability(BUDGETS, scores(30.0, slope, noise=1e-9)).slope.value for slope in (8.62, 3.33))
    assert one / other == pytest.approx(2.6, abs=0.02)
