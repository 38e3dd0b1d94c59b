"""Small reproductions of the papers' ablations over seeds, one JSON object as the last line.

Each study of `trainer.recipes.studies` trains its variants on equal data and seeds. Differences are paired by seed,
with Student's 95 % interval; a difference whose interval holds 0 is called "not separated". The loss is the
language-model loss without auxiliary terms over the last 100 steps, of samples never read before; `lm_loss_bins` are
the means of 100 steps each (R801-7.11). All figures come from seeds and steps: the machine's load does not matter.
What they say holds for half a million parameters and a few hundred steps. `--keep FILE` remembers finished trainings;
`--figure FILE.svg` draws loss curves and differences.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.muon_steps import interval
from benchmarks.training_curves import Curves, TrainingCurves
from trainer.recipes.studies import STUDIES, config_of

BIN = 100


def study(name: str, curves: TrainingCurves, num_steps: int, seeds: Sequence[int]) -> dict[str, Any]:
    """Figures of every variant, and its paired difference from the first one."""
    by_variant = {
        variant: [
            curves.of(config_of(name, variant, {"seed": seed}), num_steps, f"{name}/{variant} seed {seed}")
            for seed in seeds
        ]
        for variant in STUDIES[name]
    }
    first, *_ = by_variant.values()
    return {variant: _figures(trained, first) for variant, trained in by_variant.items()}


def _figures(trained: Sequence[Curves], base: Sequence[Curves]) -> dict[str, Any]:
    found: dict[str, Any] = {"lm_loss_bins": _bins(trained)}
    for series in ("lm_loss", "max_vio", "max_vio_micro"):
        last = [_last(curves, series) for curves in trained]
        found[series] = {"mean": float(np.mean(last)), "interval_95": interval(last)}
        if trained is not base:
            differences = [ours - _last(theirs, series) for ours, theirs in zip(last, base, strict=True)]
            low, high = interval(differences)
            found[series]["difference"] = {
                "mean": float(np.mean(differences)),
                "interval_95": [low, high],
                "reading": "lower" if high < 0 else "higher" if low > 0 else "not separated",
            }
    return found


def _last(curves: Curves, series: str) -> float:
    return float(np.mean(curves[series][-BIN:]))


def _bins(trained: Sequence[Curves]) -> list[float]:
    losses = np.mean([curves["lm_loss"] for curves in trained], axis=0)
    return [float(np.mean(losses[start : start + BIN])) for start in range(0, len(losses), BIN)]


def _table(found: Mapping[str, Any]) -> str:
    lines = []
    for name, variants in found["studies"].items():
        for variant, figures in variants.items():
            loss = figures["lm_loss"]
            reading = loss.get("difference", {}).get("reading", "what the others are compared with")
            lines.append(
                f"{name:11} {variant:22} loss {loss['mean']:.3f}  MaxVio {figures['max_vio']['mean']:.2f}  {reading}"
            )
    return "\n".join(lines)


def draw(studies: Mapping[str, Mapping[str, Any]], file: Path) -> None:
    """A row a study: loss by step, and the differences of loss and MaxVio from the first variant with intervals."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 2.4 * len(studies)), layout="constrained")
    rows = figure.subplots(len(studies), 3, squeeze=False, width_ratios=(2, 1, 1))
    for (curves, *differences), (study, variants) in zip(rows, studies.items(), strict=True):
        for variant, figures in variants.items():
            steps = [BIN * (index + 1) for index in range(len(figures["lm_loss_bins"]))]
            curves.plot(steps, figures["lm_loss_bins"], marker="o", markersize=3, label=variant)
        curves.set(title=study, xlabel="step", ylabel="language-model loss (nats)")
        curves.legend(fontsize=7)
        for axes, series, title in zip(differences, ("lm_loss", "max_vio"), ("loss", "MaxVio"), strict=True):
            _draw_differences(axes, series, variants)
            axes.set_title(f"{title}: difference from the first", fontsize=9)
    figure.savefig(file, format="svg", metadata={"Date": None})


def _draw_differences(axes: Any, series: str, variants: Mapping[str, Any]) -> None:
    others = [variant for variant in variants if "difference" in variants[variant][series]]
    for row, variant in enumerate(others):
        difference = variants[variant][series]["difference"]
        mean, (low, high) = difference["mean"], difference["interval_95"]
        axes.errorbar(mean, row, xerr=[[mean - low], [high - mean]], fmt="o", color=f"C{row + 1}", markersize=4)
    axes.axvline(0.0, color="0.6", linewidth=0.8)
    axes.set_yticks(range(len(others)), others, fontsize=7)
    axes.set_ylim(len(others) - 0.5, -0.5)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.trainer_studies")
    parser.add_argument("--json", action="store_true", help="print the JSON object only")
    parser.add_argument("--study", choices=[*STUDIES], action="append", help="only this one; may be repeated")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--keep", type=Path, help="file that remembers finished trainings")
    parser.add_argument("--figure", type=Path, help="write an SVG here")
    arguments = parser.parse_args()
    curves, seeds = TrainingCurves(arguments.keep), range(1, arguments.seeds + 1)
    studies = {name: study(name, curves, arguments.steps, seeds) for name in arguments.study or STUDIES}
    found = {"studies": studies, "num_steps": arguments.steps, "seeds": list(seeds)}
    if arguments.figure:
        draw(studies, arguments.figure)
    if not arguments.json:
        sys.stdout.write(_table(found) + "\n")
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
