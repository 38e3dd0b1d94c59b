"""Simulated ladders with known answers: coverage of N*, bias of the maximum, wrong and right verdicts.

A cell is a number of items, the standard deviation between seeds in points, and a number of seeds. Every score is
binomial over the items. Half of the variance between seeds shifts a seed's whole curve, half is of each score.
Nothing here knows how the estimators work. Shape letters: L ladders, R seeds, J budgets, C checkpoints, P protocols,
F folds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loops.potential.learnability import MAX_EXTRAPOLATION, Lines
from loops.potential.maximum import NUM_FOLDS, cross_fitted
from loops.potential.verdicts import MARGIN, POWER, Trends, Verdict, power, verdicts

Floats = NDArray[np.float64]

GRID: Mapping[str, list[float]] = {"items": [164, 500, 1319], "seed_sd": [0.3, 1.0, 2.0], "seeds": [3, 5]}
BUDGETS = tuple(30.0 * 2**power for power in range(8))  # SFT steps of the scored checkpoints
SLOPES = (8.62, 3.33, 9.15, 5.03)  # points per tenfold data that the report gives (R801-4.12)
NUM_CHECKPOINTS = 23  # as the report compared (R801-4.8)
NUM_PROTOCOLS = 10


@dataclass(frozen=True, kw_only=True)
class Cell:
    items: int
    seed_sd: float
    seeds: int

    def noisy(self, truth: Floats, rng: np.random.Generator) -> Floats:
        """[L, X, R] measured scores of true scores [L, X] in points; a seed is one curve over X."""
        ladders, points = truth.shape
        half = self.seed_sd / np.sqrt(2.0)
        curve = rng.normal(0.0, half, (ladders, 1, self.seeds))
        own = rng.normal(0.0, half, (ladders, points, self.seeds))
        share = np.clip((truth[..., None] + curve + own) / 100.0, 0.0, 1.0)
        return np.asarray(100.0 * rng.binomial(self.items, share) / self.items)

    def single(self, truth: Floats, rng: np.random.Generator) -> Floats:
        """[L, X, 1] scores of base checkpoints, which have no SFT seed."""
        return np.asarray(100.0 * rng.binomial(self.items, truth / 100.0) / self.items)[..., None]


def cells(grid: Mapping[str, list[float]]) -> Iterator[Cell]:
    for items in grid["items"]:
        for seed_sd in grid["seed_sd"]:
            for seeds in grid["seeds"]:
                yield Cell(items=int(items), seed_sd=float(seed_sd), seeds=int(seeds))


def simulated(grid: Mapping[str, list[float]], num_ladders: int, seed: int) -> list[dict[str, Any]]:
    """A row of figures for each cell."""
    rows = []
    for number, cell in enumerate(cells(grid)):
        rng = np.random.default_rng([seed, number])
        row: dict[str, Any] = {"items": cell.items, "seed_sd": cell.seed_sd, "seeds": cell.seeds}
        row |= needed_data(cell, num_ladders, rng)
        row |= best_protocol(cell, num_ladders, rng)
        row |= plateaus(cell, num_ladders, rng)
        rows.append(row)
    return rows


def needed_data(cell: Cell, num_ladders: int, rng: np.random.Generator) -> dict[str, float]:
    """N* drawn log-uniformly from the first budget to ten times the last one, k from the published slopes."""
    x_J = np.log10(np.array(BUDGETS) / BUDGETS[0])
    slope_L = rng.choice(SLOPES, num_ladders)
    start_L = rng.uniform(25.0, 45.0, num_ladders)
    wanted_L = rng.uniform(0.0, x_J[-1] + np.log10(MAX_EXTRAPOLATION), num_ladders)
    truth = start_L[:, None] + slope_L[:, None] * x_J
    lines = Lines.fit(BUDGETS, cell.noisy(truth, rng).transpose(0, 2, 1))
    needed = lines.needed(start_L + slope_L * wanted_L)
    given = needed.refusal_L == 0
    covered = (needed.low_L <= wanted_L) & (wanted_L <= needed.high_L)
    bounded = np.isfinite(needed.low_L) & np.isfinite(needed.high_L)
    return {
        "nstar_coverage": float(covered[given].mean()),
        "nstar_refused": float(1.0 - given.mean()),
        "nstar_unbounded": float((~bounded[given]).mean()),
        "nstar_median_width_decades": float(np.median((needed.high_L - needed.low_L)[given & bounded])),
        "slope_coverage": _slope_coverage(lines, slope_L),
    }


def _slope_coverage(lines: Lines, slope_L: Floats) -> float:
    from scipy.special import stdtrit

    half = stdtrit(lines.slope_df, 0.975) * np.sqrt(lines.slope_var_L)
    return float((np.abs(lines.slope_L - slope_L) <= half).mean())


def best_protocol(cell: Cell, num_ladders: int, rng: np.random.Generator) -> dict[str, float]:
    """Protocols of equal skill, where any excess is bias; and of skills spread over 10 points, what the best has."""
    equal = np.full((num_ladders, NUM_PROTOCOLS), 60.0)
    spread = np.tile(np.linspace(55.0, 65.0, NUM_PROTOCOLS), (num_ladders, 1))
    naive, corrected = _maxima(cell, equal, rng)
    naive_spread, corrected_spread = _maxima(cell, spread, rng)
    return {
        "max_bias_pts": abs(corrected - 60.0),
        "max_bias_naive_pts": naive - 60.0,
        "max_bias_spread_pts": corrected_spread - 65.0,
        "max_bias_naive_spread_pts": naive_spread - 65.0,
    }


def _maxima(cell: Cell, skill_LP: Floats, rng: np.random.Generator) -> tuple[float, float]:
    ladders, protocols = skill_LP.shape
    sizes_F = np.bincount(np.arange(cell.items) % NUM_FOLDS, minlength=NUM_FOLDS)
    shift = rng.normal(0.0, cell.seed_sd, (ladders, protocols, cell.seeds))
    share = np.clip((skill_LP[..., None] + shift) / 100.0, 0.0, 1.0)
    sums_LPRF = rng.binomial(sizes_F, share[..., None]).astype(np.float64)
    naive = 100.0 * sums_LPRF.sum(axis=(2, 3)).max(axis=1) / (cell.seeds * cell.items)
    corrected, _ = cross_fitted(sums_LPRF, sizes_F.astype(np.float64))
    return float(naive.mean()), 100.0 * float(corrected.mean())


def plateaus(cell: Cell, num_ladders: int, rng: np.random.Generator) -> dict[str, float]:
    """Runs whose base and potential change by known amounts; wrong labels of any kind are false positives."""
    flat = _labels(cell, 0.0, 0.0, num_ladders, rng)
    false_plateau = _labels(cell, 0.0, 2.0, num_ladders, rng)
    overtrained = _labels(cell, 4.0, -2.0, num_ladders, rng)
    alarm = _labels(cell, -4.0, 2.0, num_ladders, rng)
    wrong = [
        _share(flat, Verdict.FALSE_PLATEAU, Verdict.GROWTH),
        _share(flat, Verdict.OVERTRAINING, Verdict.TRUE_DROP),
        _share(false_plateau, Verdict.TRUE_PLATEAU),
        _share(false_plateau, Verdict.OVERTRAINING, Verdict.TRUE_DROP),
        _share(overtrained, Verdict.FALSE_PLATEAU, Verdict.GROWTH, Verdict.FALSE_DEGRADATION),
        _share(alarm, Verdict.OVERTRAINING, Verdict.TRUE_DROP),
    ]
    share = _power(cell)
    return {
        "false_positive": max(wrong),
        "recall_2pt": _share(false_plateau, Verdict.FALSE_PLATEAU, Verdict.GROWTH, Verdict.FALSE_DEGRADATION),
        "expected_power": share,
        "has_power": float(share >= POWER),
        "true_plateau_named": _share(flat, Verdict.TRUE_PLATEAU),
        "overtraining_named": _share(overtrained, Verdict.OVERTRAINING),
        "false_degradation_named": _share(alarm, Verdict.FALSE_DEGRADATION),
    }


def _labels(cell: Cell, base: float, sft: float, num_ladders: int, rng: np.random.Generator) -> NDArray[np.str_]:
    tokens = np.linspace(4.1, 7.0, NUM_CHECKPOINTS)
    way = np.tile(np.linspace(0.0, 1.0, NUM_CHECKPOINTS), (num_ladders, 1))
    base_scores = cell.single(61.0 + base * way, rng)
    sft_scores = cell.noisy(66.0 + sft * way, rng)
    return verdicts(Trends.of(tokens.tolist(), base_scores), Trends.of(tokens.tolist(), sft_scores), margin=MARGIN)


def _power(cell: Cell) -> float:
    """What the design can see of 2 points, from the cell's numbers alone."""
    own = 66.0 * 34.0 / cell.items + cell.seed_sd**2 / 2.0
    d_C = np.linspace(-0.5, 0.5, NUM_CHECKPOINTS)
    return power(2.0, float(np.sqrt(own / cell.seeds / (d_C @ d_C))), NUM_CHECKPOINTS - 2)


def _share(labels: NDArray[np.str_], *wanted: Verdict) -> float:
    return float(np.isin(labels, [str(each) for each in wanted]).mean())
