"""Statistics against hand-computed values and textbook figures."""

from __future__ import annotations

import numpy as np
import pytest

from loops.statistics.change_point import least_squares_split
from loops.statistics.location import (
    difference_sigma,
    median,
    resistant_line,
    robust_sigma,
    running_median,
    theil_sen,
)
from loops.statistics.paired import block_bootstrap, sign_test_p, t_interval


def test_location_and_scale() -> None:
    values = np.array([1.0, 2.0, 3.0, 4.0, 100.0])
    assert median(values) == 3.0
    assert median(values[:4]) == 2.5
    assert robust_sigma(values) == pytest.approx(1.4826)
    normal = np.random.default_rng(0).normal(scale=2.0, size=4000)
    assert difference_sigma(normal + np.arange(4000) * 5.0) == pytest.approx(2.0, rel=0.1)
    assert robust_sigma(np.array([1.0])) == 0.0


def test_lines_stand_up_to_outliers() -> None:
    x = np.arange(30.0)
    y = 2.0 * x + 1.0
    y[[3, 17]] = 500.0
    assert theil_sen(x, y) == pytest.approx((2.0, 1.0))
    assert resistant_line(x, y)[0] == pytest.approx(2.0, rel=0.1)
    assert theil_sen(np.array([1.0]), np.array([4.0])) == (0.0, 4.0)
    assert resistant_line(np.array([1.0]), np.array([4.0])) == (0.0, 4.0)


def test_running_median_removes_a_spike_and_keeps_the_length() -> None:
    values = np.array([1.0, 1.0, 9.0, 1.0, 1.0, 1.0])
    assert running_median(values, 3).tolist() == [1.0] * 6


def test_change_point_interval_covers_the_truth() -> None:
    """The 95 % interval of the onset contains the true step in most of 40 draws, for a step and for a ramp."""
    covered = {"step": 0, "ramp": 0}
    for seed in range(40):
        noise = np.random.default_rng(seed).normal(size=80)
        for shape, effect in (("step", np.full(30, 2.5)), ("ramp", 0.25 * np.arange(1, 31))):
            split = least_squares_split(noise + np.concatenate([np.zeros(50), effect]))
            assert split is not None
            covered[shape] += split.low <= 50 <= split.high
    assert covered["step"] >= 32
    assert covered["ramp"] >= 32


def test_no_change_point_in_too_few_or_equal_values() -> None:
    assert least_squares_split(np.arange(4.0)) is None
    assert least_squares_split(np.ones(50)) is None


def test_paired_comparisons() -> None:
    """Three agreeing pairs are p = 0.25 two-sided (0.125 one-sided); five are 0.0625."""
    assert sign_test_p(3, 3) == pytest.approx(0.25)
    assert sign_test_p(5, 5) == pytest.approx(0.0625)
    assert sign_test_p(0, 0) == 1.0
    effect = t_interval(np.array([1.0, 2.0, 3.0]))
    assert (effect.mean, effect.num_pairs) == (2.0, 3)
    assert effect.high - effect.mean == pytest.approx(4.303 / np.sqrt(3), rel=1e-3)


def test_block_bootstrap_is_wider_than_independent_steps_would_be() -> None:
    rng = np.random.default_rng(2)
    walk = np.convolve(rng.normal(size=240), np.ones(8) / 8, mode="valid")
    single = block_bootstrap(walk, rng=np.random.default_rng(0), block=1)
    blocks = block_bootstrap(walk, rng=np.random.default_rng(0), block=12)
    assert single.mean == blocks.mean == pytest.approx(walk.mean())
    assert blocks.high - blocks.low > 1.5 * (single.high - single.low)
