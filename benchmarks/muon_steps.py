"""Steps that Muon needs for the loss that AdamW reaches, one JSON object as the last line (R801-7.11).

The small model on the standard-library corpus, its default table of groups (attention and experts on Muon, the rest on
AdamW) against AdamW for all of them; equal data, initial weights, weight decay and schedule (warm-up, then constant).
Both get the same search over learning rates for attention and experts on a seed of its own, then --seeds others. The
loss is that of samples never read before, as a mean over the last 20 steps; AdamW's last one is what Muon must reach.
Figures are steps, so the machine's load does not matter. `--keep FILE` remembers finished trainings: an aborted
benchmark goes on.

    muon_steps_ratio   mean over the seeds of Muon's steps / AdamW's, with its 95 % interval (Student's t)
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.training_curves import Curve, TrainingCurves, smoothed
from contracts.events import Scalar
from trainer.config import TrainConfig
from trainer.recipes.studies import STUDIES

GOAL = 0.7
RATES = (7.5e-4, 1.5e-3, 3e-3, 6e-3, 1.2e-2)
WINDOW = 20
TUNING_SEED = 1000
OPTIMIZERS: Mapping[str, Mapping[str, Scalar]] = {
    "adamw": STUDIES["optimizers"]["adamw_global"],
    "muon": STUDIES["optimizers"]["muon_e_a_global"],
}


def config_of(optimizer: str, rate: float, seed: int) -> TrainConfig:
    rates: dict[str, Scalar] = {f"optim.{group}.lr": rate for group in ("attention", "experts")}
    return TrainConfig().with_overrides(dict(OPTIMIZERS[optimizer]) | rates | {"seed": seed})


def measure(curves: TrainingCurves, num_steps: int, seeds: Sequence[int]) -> dict[str, Any]:
    def losses(optimizer: str, rate: float, seed: int) -> Curve:
        label = f"{optimizer} rate {rate} seed {seed}"
        return smoothed(curves.of(config_of(optimizer, rate, seed), num_steps, label)["lm_loss"], WINDOW)

    tuned = {name: {rate: float(losses(name, rate, TUNING_SEED)[-1]) for rate in RATES} for name in OPTIMIZERS}
    best = {name: min(table, key=table.__getitem__) for name, table in tuned.items()}
    ratios, gains = [], []
    for seed in seeds:
        adamw, muon = (losses(name, best[name], seed) for name in ("adamw", "muon"))
        reached = np.flatnonzero(muon <= adamw[-1])
        ratios.append((int(reached[0]) + 1) / num_steps if len(reached) else math.inf)
        gains.append(float(adamw[-1] - muon[-1]))
    return {
        "muon_steps_ratio": float(np.mean(ratios)),
        "interval_95": interval(ratios),
        "ratios": ratios,
        "loss_gain_at_equal_steps": gains,
        "num_steps": num_steps,
        "seeds": list(seeds),
        "best_rates": best,
        "tuning_losses": tuned,
        "goal": GOAL,
        "is_met": bool(np.mean(ratios) <= GOAL),
    }


def interval(values: Sequence[float]) -> list[float]:
    """95 % of the mean, by Student's t."""
    if len(values) < 2:
        return [-math.inf, math.inf]
    half = float(stats.t.ppf(0.975, len(values) - 1) * stats.sem(values))
    return [float(np.mean(values)) - half, float(np.mean(values)) + half]


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.muon_steps")
    parser.add_argument("--json", action="store_true", help="print the JSON object only")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="file that remembers finished trainings")
    arguments = parser.parse_args()
    found = measure(TrainingCurves(arguments.keep), arguments.steps, range(1, arguments.seeds + 1))
    if not arguments.json:
        low, high = found["interval_95"]
        sys.stdout.write(f"Muon needs {found['muon_steps_ratio']:.2f} of AdamW's steps ({low:.2f} to {high:.2f})\n")
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
