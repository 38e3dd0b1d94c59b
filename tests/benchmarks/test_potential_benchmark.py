"""The potential benchmark's own figures: simulated cells and the comparison of a ladder, on small inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.potential_parts.ladder import RECIPES, SEEDS, SIZES, cells, config_of
from benchmarks.potential_parts.ladder_figures import figures
from benchmarks.potential_parts.simulation import GRID, simulated


def test_a_cell_has_every_figure_near_its_goal() -> None:
    (row,) = simulated({"items": [1319], "seed_sd": [0.3], "seeds": [5]}, 2000, seed=1)
    assert 0.93 < row["nstar_coverage"] < 0.97
    assert row["nstar_refused"] < 0.1
    assert row["max_bias_pts"] < 0.2 < row["max_bias_naive_pts"]
    assert row["false_positive"] < 0.012
    assert row["has_power"] == 1.0
    assert row["recall_2pt"] > 0.95


def test_the_fixed_grid_has_eighteen_cells() -> None:
    assert GRID == {"items": [164, 500, 1319], "seed_sd": [0.3, 1.0, 2.0], "seeds": [3, 5]}


def test_the_ladder_is_as_large_as_it_says() -> None:
    names = list(cells(list(RECIPES), list(SIZES), SEEDS))
    assert len(RECIPES) >= 9
    assert len(names) == len(set(names)) == len(RECIPES) * 3 * 3
    configs = {str(config_of(recipe, "small", 1, SPACE).flat()) for recipe in RECIPES}
    assert len(configs) == len(RECIPES)


def test_a_measure_that_predicts_is_told_from_one_that_does_not() -> None:
    rng = np.random.default_rng(0)
    quality = dict(zip([f"r{n}" for n in range(9)], np.linspace(30, 46, 9), strict=True))
    rows = [_row(recipe, size, seed, quality[recipe], rng) for recipe in quality for size in SIZES for seed in SEEDS]
    found = figures(rows, list(SIZES), rounds=200)
    assert found["trainings"] == 81
    assert found["tinysft_tau"] > 0.9 > found["base_tau"]
    assert found["base_bits_tau"] < 0.9
    assert "decision_accuracy" not in figures([row for row in rows if row["size"] == "small"], ["small"], rounds=9)
    assert found["tau_difference_95"][0] > 0
    assert found["decision_accuracy"] > 0.9 > found["single_scale_accuracy"]
    low, high = found["decision_accuracy_95"]
    assert low <= found["decision_accuracy"] <= high


SPACE: Any = "/corpus"


def _row(recipe: str, size: str, seed: int, quality: float, rng: np.random.Generator) -> dict[str, Any]:
    def score(signal: float) -> dict[str, float]:
        value = signal * quality + rng.normal(0, 0.3)
        return {"accuracy": value, "likelihood": value / 10}

    noise = {
        "accuracy": float(rng.normal(27, 1)),
        "likelihood": float(rng.normal(-5, 0.1)),
        "bits_per_byte": {"code": float(rng.normal(3, 0.1))},
    }
    return {
        "recipe": recipe,
        "size": size,
        "seed": seed,
        "cell_s": 1.0,
        "base": noise,
        "tiny": score(0.8),
        "long": score(1.0),
    }
