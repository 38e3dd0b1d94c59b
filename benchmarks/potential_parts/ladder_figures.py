"""What a trained ladder says: which early measure orders recipes as a much longer SFT does.

Intervals are of 2,000 bootstrap rounds over recipes (with their seeds drawn anew), 95 % percentiles. They say how far
the figures rest on these recipes and seeds. Shape letters: C recipes, Z sizes, S seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loops.potential.ranks import decision_accuracy, kendall

Floats = NDArray[np.float64]
Table = Mapping[str, Floats]  # kind of score -> [C, Z, S]

ROUNDS = 2000


def figures(
    cells: Sequence[Mapping[str, Any]], sizes: Sequence[str], seed: int = 0, rounds: int = ROUNDS
) -> dict[str, Any]:
    """`sizes` ascending; the last one is what the smaller ones are to predict."""
    recipes = list(dict.fromkeys(cell["recipe"] for cell in cells))
    seeds = sorted({cell["seed"] for cell in cells})
    found: dict[str, Any] = {"recipes": recipes, "sizes": list(sizes), "seeds": seeds, "trainings": len(cells)}
    found["cell_s"] = round(sum(cell["cell_s"] for cell in cells), 0)
    for measure in ("accuracy", "likelihood"):
        kinds = {kind: (kind, measure) for kind in ("base", "tiny", "long")} | {"bits": ("base", "bits_per_byte")}
        table = {kind: _table(cells, recipes, sizes, seeds, value) for kind, value in kinds.items()}
        prefix = "" if measure == "accuracy" else "likelihood_"
        found |= {prefix + name: value for name, value in _compared(table, np.random.default_rng(seed), rounds).items()}
        found[prefix + "means"] = _means(table, recipes, sizes)
    return found


def _table(
    cells: Sequence[Mapping[str, Any]],
    recipes: Sequence[str],
    sizes: Sequence[str],
    seeds: Sequence[int],
    value: tuple[str, str],
) -> Floats:
    """`value`: kind and measure; of bits per byte minus the mean over the domains of held-out text."""

    def of(cell: Mapping[str, Any]) -> float:
        found = cell[value[0]][value[1]]
        return -float(np.mean([*found.values()])) if isinstance(found, Mapping) else float(found)

    by_name = {(cell["recipe"], cell["size"], cell["seed"]): of(cell) for cell in cells}
    return np.array([[[by_name[recipe, size, seed] for seed in seeds] for size in sizes] for recipe in recipes])


def _compared(table: Table, rng: np.random.Generator, rounds: int) -> dict[str, Any]:
    measures: Mapping[str, Callable[[Table], float]] = {
        "tinysft_tau": lambda t: _mean_tau(t["tiny"], t["long"]),
        "base_tau": lambda t: _mean_tau(t["base"], t["long"]),
        "base_bits_tau": lambda t: _mean_tau(t["bits"], t["long"]),
        "tau_difference": lambda t: _mean_tau(t["tiny"], t["long"]) - _mean_tau(t["base"], t["long"]),
    }
    across: Mapping[str, Callable[[Table], float]] = {
        # Two baselines: the base score of one size, as is usual, and of all sizes that Tiny-SFT reads.
        "decision_accuracy": lambda t: decision_accuracy(t["tiny"][:, :-1].mean(axis=(1, 2)), _target(t)),
        "single_scale_accuracy": lambda t: decision_accuracy(t["base"][:, -2].mean(axis=1), _target(t)),
        "base_all_scales_accuracy": lambda t: decision_accuracy(t["base"][:, :-1].mean(axis=(1, 2)), _target(t)),
    }
    if table["long"].shape[1] > 1:
        measures = {**measures, **across}
    found: dict[str, Any] = {}
    resampled = [_resampled(table, rng) for _ in range(rounds)]
    for name, measure in measures.items():
        values = np.array([measure(each) for each in resampled])
        low, high = np.nanquantile(values, [0.025, 0.975])
        found[name] = round(measure(table), 4)
        found[f"{name}_95"] = [round(float(low), 4), round(float(high), 4)]
    return found


def _mean_tau(one: Floats, other: Floats) -> float:
    """Mean over the sizes of Kendall's tau between the recipes' means over seeds."""
    taus = [kendall(one[:, size].mean(axis=1), other[:, size].mean(axis=1)) for size in range(one.shape[1])]
    return float(np.nanmean(taus))


def _target(table: Table) -> Floats:
    return np.asarray(table["long"][:, -1].mean(axis=1))


def _resampled(table: Table, rng: np.random.Generator) -> Table:
    """The same recipes and seeds in every kind of score; a recipe drawn twice ties with itself in none."""
    count, _, seeds = table["long"].shape
    while True:
        chosen = np.unique(rng.integers(0, count, count))
        if chosen.size >= 3:
            break
    drawn = rng.integers(0, seeds, (chosen.size, seeds))
    return {
        kind: np.take_along_axis(values[chosen], drawn[:, None, :].repeat(values.shape[1], axis=1), axis=2)
        for kind, values in table.items()
    }


def _means(table: Table, recipes: Sequence[str], sizes: Sequence[str]) -> dict[str, Any]:
    return {
        recipe: {
            size: {kind: round(float(values[row, column].mean()), 3) for kind, values in table.items()}
            for column, size in enumerate(sizes)
        }
        for row, recipe in enumerate(recipes)
    }
