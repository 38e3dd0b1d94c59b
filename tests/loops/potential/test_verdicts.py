"""Verdicts over two curves, ranks, and the corrected maximum. Shows R801-4.6 to 4.8, R801-4.14, R801-4.18."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kendalltau, spearmanr

from contracts.errors import UserInputError
from loops.potential.maximum import corrected_maximum, cross_fitted, rank_changes
from loops.potential.ranks import decision_accuracy, kendall, rank_table, spearman
from loops.potential.verdicts import Verdict, power, read

TOKENS = list(np.linspace(4.1, 7.0, 12))
WAY = np.linspace(0.0, 1.0, 12)


def curve(change: float, *, level: float = 60.0, noise: float = 0.2, seeds: int = 1, seed: int = 0) -> np.ndarray:
    return level + change * WAY[:, None] + np.random.default_rng(seed).normal(0, noise, (12, seeds))


@pytest.mark.parametrize(
    ("base", "sft", "expected"),
    [
        (0.0, 2.0, Verdict.FALSE_PLATEAU),
        (-2.0, 1.5, Verdict.FALSE_DEGRADATION),
        (-2.0, 0.0, Verdict.FALSE_DEGRADATION),
        (0.0, 0.0, Verdict.TRUE_PLATEAU),
        (2.0, -2.0, Verdict.OVERTRAINING),
        (-2.0, -2.0, Verdict.TRUE_DROP),
        (2.0, 2.0, Verdict.GROWTH),
    ],
)
def test_each_verdict(base: float, sft: float, expected: Verdict) -> None:
    found = read(TOKENS, curve(base), curve(sft, level=66.0, seeds=3, seed=1))
    assert found.verdict is expected
    assert "base" in found.sentence
    assert "after SFT" in found.sentence


def test_noise_is_inconclusive_and_says_what_would_have_been_seen() -> None:
    found = read(TOKENS, curve(0.0, noise=4.0), curve(2.0, noise=8.0, seeds=3, seed=3))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.sft.detectable > 2.0
    assert f"{found.sft.detectable:.1f} points" in found.sentence


def test_base_alone_would_have_stopped_the_run() -> None:
    """A flat base with a rising potential: stopping on the base score would be wrong (R801-4.18)."""
    found = read(TOKENS, curve(-0.3), curve(2.0, level=66.0, seeds=3, seed=1))
    assert found.base.low <= 0.0 <= found.base.high
    assert found.verdict is Verdict.FALSE_PLATEAU


def test_two_checkpoints_are_judged_by_their_seeds() -> None:
    base = np.array([[60.0, 60.1, 59.9], [59.5, 59.4, 59.6]])
    sft = np.array([[66.0, 66.1, 66.05], [67.0, 67.1, 67.05]])
    found = read([1.0, 2.0], base, sft)
    assert found.verdict is Verdict.FALSE_DEGRADATION
    with pytest.raises(UserInputError, match="no noise to be judged by"):
        read([1.0, 2.0], base[:, :1], sft)


def test_power_grows_with_the_effect() -> None:
    assert power(2.0, 0.4, 20) > 0.9 > power(1.0, 0.4, 20) > power(0.0, 0.4, 20)
    assert power(0.0, 0.4, 20) == pytest.approx(0.0045, abs=1e-4)


def test_spearman_equals_scipy_with_ties_and_has_an_interval() -> None:
    rng = np.random.default_rng(1)
    base = rng.integers(0, 8, 23).astype(float)
    sft = base + rng.normal(0, 3, 23)
    found = spearman(base, sft)
    assert found.rho == pytest.approx(spearmanr(base, sft).statistic)
    assert found.low < found.rho < found.high
    assert kendall(base, sft) == pytest.approx(kendalltau(base, sft).statistic)
    with pytest.raises(UserInputError, match="4 checkpoints"):
        spearman(base[:4], sft[:4])


def test_rank_table_gives_ties_their_average_rank() -> None:
    rows = rank_table(["a", "b", "c"], np.array([61.0, 61.0, 60.0]), np.array([66.0, 67.0, 68.0]))
    assert [row.base_rank for row in rows] == [1.5, 1.5, 3.0]
    assert [row.sft_rank for row in rows] == [3.0, 2.0, 1.0]


def test_decision_accuracy_counts_pairs() -> None:
    assert decision_accuracy(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0])) == 1.0
    assert decision_accuracy(np.array([1.0, 1.0, 0.0]), np.array([1.0, 2.0, 3.0])) == pytest.approx(0.5 / 3)


def test_maximum_of_equal_protocols_is_not_rewarded_for_noise() -> None:
    rng = np.random.default_rng(0)
    naive, corrected = [], []
    for _ in range(200):
        right = {f"p{n}": (rng.random((3, 150)) < 0.6).astype(float) for n in range(10)}
        best = corrected_maximum(right)
        naive.append(best.naive)
        corrected.append(best.value)
        assert best.correction == pytest.approx(best.value - best.naive)
    assert np.mean(naive) > 62.0
    assert abs(np.mean(corrected) - 60.0) < 0.6


@pytest.mark.parametrize("seeds", [1, 3])
def test_the_interval_of_the_maximum_covers(seeds: int) -> None:
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(100):
        best = corrected_maximum({f"p{n}": (rng.random((seeds, 160)) < 0.6).astype(float) for n in range(10)})
        covered += best.low <= 60.0 <= best.high
    assert covered >= 93


def test_maximum_finds_a_protocol_that_is_better() -> None:
    rng = np.random.default_rng(0)
    right = {f"p{n}": (rng.random((3, 400)) < (0.8 if n == 3 else 0.5)).astype(float) for n in range(6)}
    best = corrected_maximum(right)
    assert best.protocol == "p3"
    assert best.chosen["p3"] == 1.0
    assert best.low < 80.0 < best.high


def test_protocols_over_other_items_are_refused() -> None:
    with pytest.raises(UserInputError, match="same items"):
        corrected_maximum({"a": np.ones((1, 20)), "b": np.ones((1, 21))})


def test_the_choice_never_sees_what_it_is_scored_on() -> None:
    """A protocol that is best in one fold only gains nothing from that fold."""
    sums = np.array([[[[20.0, 0, 0, 0, 0]], [[10.0, 10, 10, 10, 10]]]])
    value, chosen = cross_fitted(sums, np.full(5, 20.0))
    assert chosen[0, 0, 0] == 1
    assert value[0] < 0.5 + 1e-9


def test_rank_changes_need_more_than_noise_by_item() -> None:
    rng, zeros = np.random.default_rng(0), np.zeros(80)
    high, low = (rng.random(80) < 0.9).astype(float), (rng.random(80) < 0.3).astype(float)
    assert rank_changes({"a": high, "b": low}, {"a": low, "b": high}) == [("a", "b")]
    near = high.copy()
    near[:4] = 1.0 - near[:4]
    assert rank_changes({"a": high, "b": near}, {"a": low, "b": high}) == []
    assert rank_changes({"a": high, "b": low}, {"a": high, "b": low}) == []
    assert rank_changes({"a": zeros, "b": zeros}, {"a": low, "b": high}) == []
