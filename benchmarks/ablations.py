"""One switch at a time over the fix set of a published training: what each change does alone, three seeds each.

The report moved five things at once and could isolate none (R801-3.5, R801-10.1). Here the embedded trainer runs the
first pilot's settings and the main run's, scaled to its size by the report's own ratios, each switch alone on the old
settings and each taken back alone from the new ones. Same seed, same data: differences are paired; intervals are
Student's over seeds. Prints one JSON object as the last line; `--figure FILE.svg` draws it.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from contracts.events import Scalar
from loops.statistics.paired import PairedEffect, t_interval
from trainer import Recipe, TrainConfig

# name -> (first pilot, main run); ratios of coefficient and learning rate as in the report
SWITCHES: dict[str, tuple[dict[str, Scalar], dict[str, Scalar]]] = {
    "balance coefficient / 100": ({"moe.balance.coef": 1.0}, {"moe.balance.coef": 0.01}),
    "learning rate / 5.4": (
        {f"optim.{group}.lr": 1.6e-2 for group in ("embedding", "head", "norm", "router", "attention", "experts")},
        {f"optim.{group}.lr": 3e-3 for group in ("embedding", "head", "norm", "router", "attention", "experts")},
    ),
    "router on AdamW": ({"optim.router.optimizer": "muon"}, {"optim.router.optimizer": "adamw"}),
    "balance over the global batch": ({"moe.balance.scope": "micro"}, {"moe.balance.scope": "global"}),
    "no decay on norms and biases": (
        {"optim.norm.weight_decay": 0.1, "optim.bias.weight_decay": 0.1},
        {"optim.norm.weight_decay": 0.0, "optim.bias.weight_decay": 0.0},
    ),
}
MEASURES = {"lm_loss": "language-model loss", "max_vio": "MaxVio, mean of layers", "logit_std": "router logit std"}
_LAST = 20  # steps that are averaged
_SIDES = {"on old": "#0072b2", "on new": "#d55e00"}  # told apart by the colour-blind (Okabe and Ito 2008)
_SAID = {"on old": "alone, on the pilot's settings", "on new": "as the last one, to the main run's"}
_ALL_OLD, _ALL_NEW = "all old", "all new"


def settings(new: frozenset[str]) -> dict[str, Scalar]:
    """Overrides with the switches in `new` on the main run's side, the others on the pilot's."""
    merged: dict[str, Scalar] = {}
    for name, (old, main) in SWITCHES.items():
        merged |= main if name in new else old
    return merged


def cells() -> dict[str, frozenset[str]]:
    """Every setting that is run, by name."""
    everything = frozenset(SWITCHES)
    alone = {f"old + {name}": frozenset({name}) for name in SWITCHES}
    without = {f"new - {name}": everything - {name} for name in SWITCHES}
    return {_ALL_OLD: frozenset(), _ALL_NEW: everything, **alone, **without}


def run(steps: int, job: tuple[frozenset[str], int]) -> dict[str, float]:
    """Train once; means of the last steps."""
    import torch

    from trainer.corpus import load_corpus
    from trainer.training import Training

    torch.set_num_threads(1)
    new, seed = job
    config = TrainConfig().with_overrides({**settings(new), "seed": seed, "steps": steps})
    training = Training(Recipe(config=config), load_corpus(config.data.corpus_bytes), None, lambda: math.nan)
    rows: list[Mapping[str, float]] = [training.advance().values for _ in range(steps)][-_LAST:]
    return {
        "lm_loss": float(np.mean([row["lm_loss"] for row in rows])),
        "max_vio": _over_layers(rows, "max_vio/layers."),
        "logit_std": _over_layers(rows, "router_logit_std/layers."),
    }


def _over_layers(rows: Sequence[Mapping[str, float]], prefix: str) -> float:
    return float(np.mean([value for row in rows for name, value in row.items() if name.startswith(prefix)]))


def effects(found: Mapping[str, Sequence[Mapping[str, float]]]) -> dict[str, dict[str, dict[str, PairedEffect]]]:
    """measure -> switch -> {"on old": added alone to the pilot, "on new": what it adds as the last one}."""
    return {
        measure: {
            name: {
                "on old": _paired(found[f"old + {name}"], found[_ALL_OLD], measure),
                "on new": _paired(found[_ALL_NEW], found[f"new - {name}"], measure),
            }
            for name in SWITCHES
        }
        | {"all together": {"on old": _paired(found[_ALL_NEW], found[_ALL_OLD], measure)}}
        for measure in MEASURES
    }


def _paired(with_it: Sequence[Mapping[str, float]], without: Sequence[Mapping[str, float]], key: str) -> PairedEffect:
    return t_interval(np.array([a[key] - b[key] for a, b in zip(with_it, without, strict=True)]))


def draw(found: Mapping[str, Mapping[str, Mapping[str, PairedEffect]]], file: Path) -> None:
    """One panel a measure, one row a switch, dot and 95 % interval."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 3.4), layout="constrained")
    panels = figure.subplots(1, len(found), sharey=True)
    for axes, (measure, by_switch) in zip(panels, found.items(), strict=True):
        for side, (key, colour) in enumerate(_SIDES.items()):
            rows = [(row, pair[key]) for row, pair in enumerate(by_switch.values()) if key in pair]
            places = [row + 0.12 - 0.24 * (1 - side) for row, _ in rows]
            means = [effect.mean for _, effect in rows]
            errors = [[e.mean - e.low for _, e in rows], [e.high - e.mean for _, e in rows]]
            axes.errorbar(means, places, xerr=errors, fmt="o", color=colour, label=_SAID[key], markersize=4)
        axes.axvline(0.0, color="0.6", linewidth=0.8)
        axes.set_title(MEASURES[measure], fontsize=10)
        axes.set_yticks(range(len(by_switch)), list(by_switch))
    panels[0].invert_yaxis()
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=9)
    figure.savefig(file, format="svg", metadata={"Date": None})


def measure_all(seeds: Sequence[int], steps: int) -> dict[str, list[dict[str, float]]]:
    """Every cell on every seed, two trainings at once."""
    jobs = [(new, seed) for new in cells().values() for seed in seeds]
    rows = []
    with ProcessPoolExecutor(max_workers=2) as pool:
        for done, row in enumerate(pool.map(partial(run, steps), jobs), start=1):
            sys.stderr.write(f"\r{done}/{len(jobs)} trainings")
            rows.append(row)
    sys.stderr.write("\n")
    return {name: rows[i * len(seeds) : (i + 1) * len(seeds)] for i, name in enumerate(cells())}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--figure", type=Path, help="write an SVG here")
    options = parser.parse_args()
    found = measure_all(options.seeds, options.steps)
    by_measure = effects(found)
    for measure, by_switch in by_measure.items():
        sys.stdout.write(f"\n{MEASURES[measure]}: all old {_mean(found[_ALL_OLD], measure):.3f}, ")
        sys.stdout.write(f"all new {_mean(found[_ALL_NEW], measure):.3f}\n")
        for name, pair in by_switch.items():
            words = [f"{where} {e.mean:+.3f} ({e.low:+.3f} to {e.high:+.3f})" for where, e in pair.items()]
            sys.stdout.write(f"  {name:32} {'; '.join(words)}\n")
    if options.figure:
        draw(by_measure, options.figure)
    if options.json:
        sys.stdout.write(json.dumps(_as_json(found, by_measure)) + "\n")


def _mean(rows: Sequence[Mapping[str, float]], measure: str) -> float:
    return float(np.mean([row[measure] for row in rows]))


def _as_json(
    found: Mapping[str, Sequence[Mapping[str, float]]],
    by_measure: Mapping[str, Mapping[str, Mapping[str, PairedEffect]]],
) -> dict[str, Any]:
    as_lists = {
        measure: {
            name: {where: [e.mean, e.low, e.high] for where, e in pair.items()} for name, pair in by_switch.items()
        }
        for measure, by_switch in by_measure.items()
    }
    return {"runs": found, "effects": as_lists}


if __name__ == "__main__":
    main()
