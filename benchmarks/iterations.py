"""Three iterations of a training, as a published project made them, in small: what changed, what came of it, and which
layer said so first.

Iteration 1 has the first pilot's settings, 2 the revised pilot's, 3 the main run's with other data too; ratios of
coefficient and learning rate as in the report (R801-3.22). The change table is made from the configurations. All
losses are compared at equal tokens, and each difference is that of the whole iteration: what one switch does alone
stands in benchmarks.ablations. Then two layers of a sound training lose their balance loss in the middle (as a code
fault would do it): which layers the detectors name, and how many tokens before the loss leaves that of a sound twin of
the same seed; in time only, no cause is claimed. One JSON object as the last line; `--figure FILE.svg` draws
everything. Shows R801-3.6, R801-3.7, R801-3.8 and R801-3.22.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.ablations import SWITCHES, settings
from context_store import diff_config
from contracts.events import Scalar
from loops.debug.detectors import DETECTORS
from loops.debug.view import RunView, SegmentView, make_view
from loops.statistics.paired import PairedEffect, t_interval
from trainer import Parts, Recipe, TrainConfig
from trainer.parts import balance_loss

PILOT = frozenset({"balance coefficient / 100", "learning rate / 5.4", "router on AdamW"})
ITERATIONS: dict[str, dict[str, Scalar]] = {
    "1 first pilot": settings(frozenset()),
    "2 revised pilot": settings(PILOT),
    "3 main run": {**settings(frozenset(SWITCHES)), "data.mixture.library": 0.5},
}
STUDY = "study of two layers"
SETTINGS: dict[str, dict[str, Scalar]] = {**ITERATIONS, STUDY: {"moe.balance.coef": 0.05}}
STEPS, BREAK, LAYERS = 200, 100, (2, 5)
_WINDOW = 20  # steps of a mean
_APART = 3.0  # sd of the paired differences before the fault, beyond which the loss has left its twin
_LOOKS = 5  # the run is looked at every so many steps
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Job:
    """One training. `breaks`: two layers lose their balance loss after BREAK steps."""

    name: str
    seed: int
    steps: int
    breaks: bool = False


def broken(layer: int, probs_RNE: Any, load_RE: Any, config: Any) -> Any:
    """The balance loss with no gradient in two layers."""
    return balance_loss(layer, probs_RNE.detach() if layer in LAYERS else probs_RNE, load_RE, config)


def run(job: Job) -> dict[str, list[float]]:
    """Train once; every series that is logged at each step."""
    import torch

    from trainer.corpus import load_corpus
    from trainer.training import Training

    torch.set_num_threads(1)
    config = TrainConfig().with_overrides({**SETTINGS[job.name], "seed": job.seed, "steps": job.steps})
    corpus = load_corpus(config.data.corpus_bytes)
    training = Training(Recipe(config=config), corpus, None, lambda: math.nan)
    first = [training.advance().values for _ in range(BREAK if job.breaks else job.steps)]
    if job.breaks:
        recipe = Recipe(config=config, parts=Parts(balance_loss=broken))
        training = Training(recipe, corpus, training.state(), lambda: math.nan)
        first += [training.advance().values for _ in range(job.steps - BREAK)]
    names = [name for name in first[0] if all(name in row for row in first) and "time" not in name]
    return {name: [row[name] for row in first] for name in names if "tokens_per_second" not in name}


def changes(before: str, after: str) -> list[str]:
    """`field: old -> new` of one iteration over the one before."""
    one, two = (TrainConfig().with_overrides(ITERATIONS[name]).flat() for name in (before, after))
    return [f"{change.key}: {change.before} -> {change.after}" for change in diff_config(one, two)]


def at_tokens(runs: Sequence[Mapping[str, list[float]]], step: int) -> Floats:
    """[seeds] mean loss of the steps up to `step`; all iterations read as many tokens a step."""
    return np.array([np.mean(found["lm_loss"][step - _WINDOW : step]) for found in runs])


def cut(found: Mapping[str, list[float]], last: int) -> RunView:
    """The broken run as it was after `last` steps: two segments, of which the second has other code."""
    values = {name: np.array(row[:last]) for name, row in found.items()}
    segments = (
        SegmentView(number=0, start_step=0, last_step=BREAK, code_version="sound"),
        SegmentView(number=1, start_step=BREAK, last_step=last, code_version="broken"),
    )
    return make_view("run", np.arange(1, last + 1), values, segments)


def alert(found: Mapping[str, list[float]]) -> tuple[int | None, tuple[int, ...]]:
    """The first step at which a detector speaks of single layers, and which ones it names."""
    for last in range(BREAK + _LOOKS, len(found["lm_loss"]) + 1, _LOOKS):
        view = cut(found, last)
        said = [finding for detector in DETECTORS for finding in detector(view) if finding.standalone]
        layers = {layer for finding in said for layer in finding.layers}
        if layers:
            return last, tuple(sorted(layers))
    return None, ()


def leaves_twin(found: Mapping[str, list[float]], twin: Mapping[str, list[float]]) -> int | None:
    """The first step from which the loss stays above its twin's to the end, None when it never does."""
    gap = np.array(found["lm_loss"]) - np.array(twin["lm_loss"])
    means = np.convolve(gap, np.ones(_WINDOW) / _WINDOW, mode="valid")  # of the steps i + 1 to i + _WINDOW
    spread = float(np.std(np.diff(twin["lm_loss"]))) / math.sqrt(2.0 * _WINDOW)
    above = means > _APART * spread
    below = np.flatnonzero(~above)
    start = int(below[-1]) + 1 if below.size else 0
    return start + _WINDOW if start < above.size else None


def leads(seeds: Sequence[int], found: Mapping[Job, dict[str, list[float]]], tokens: int) -> list[dict[str, Any]]:
    """One row a seed; a lead is None without an alert or without a loss that leaves its twin."""
    rows = []
    for seed in seeds:
        sound = Job(name=STUDY, seed=seed, steps=STEPS)
        bad = replace(sound, breaks=True)
        said, layers = alert(found[bad])
        false, _ = alert(found[sound])
        left = leaves_twin(found[bad], found[sound])
        lead = (left - said) * tokens if said is not None and left is not None else None
        rows.append(
            {"seed": seed, "alert": said, "layers": layers, "leaves": left, "lead_tokens": lead, "false_alarm": false}
        )
    return rows


def draw(file: Path, seeds: Sequence[int], found: Mapping[Job, dict[str, list[float]]], row: Mapping[str, Any]) -> None:
    """Losses of the iterations; the worst layer and the gap to the twin with one shaded window; all layers by name."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 6.4), layout="constrained")
    (losses, layers), (worst, gap) = figure.subplots(2, 2)
    for name in ITERATIONS:
        curves = [found[Job(name=name, seed=seed, steps=STEPS)]["lm_loss"] for seed in seeds]
        losses.plot(np.convolve(np.mean(curves, axis=0), np.ones(_WINDOW) / _WINDOW, mode="valid"), label=name)
    losses.set_title("loss of three iterations (combined effects)", fontsize=10)
    losses.legend(fontsize=8)
    sound = Job(name=STUDY, seed=seeds[0], steps=STEPS)
    bad, twin = found[replace(sound, breaks=True)], found[sound]
    for name in (n for n in bad if n.startswith("max_vio/layers.")):
        is_named = int(name.rpartition(".")[2]) in row["layers"]
        layers.plot(bad[name], color="#d55e00" if is_named else "0.75", label=name if is_named else None)
    layers.axvline(BREAK, color="0.4", linestyle="--", linewidth=0.8)
    layers.set_title("MaxVio of every layer; named by the detectors", fontsize=10)
    layers.legend(fontsize=8)
    for label, run_of in (("broken", bad), ("sound twin", twin)):
        worst.plot(np.max([run_of[f"max_vio/layers.{layer}"] for layer in LAYERS], axis=0), label=label)
    worst.set_title("worse of the two layers, MaxVio", fontsize=10)
    worst.legend(fontsize=8)
    difference = np.array(bad["lm_loss"]) - np.array(twin["lm_loss"])
    gap.plot(np.convolve(difference, np.ones(_WINDOW) / _WINDOW, mode="valid"))
    gap.set_title("loss above the twin's at equal tokens", fontsize=10)
    for axes in (worst, gap):
        axes.axvspan(BREAK, row["alert"] or STEPS, color="0.9")
        axes.set_xlabel("optimizer steps", fontsize=9)
    figure.savefig(file, format="svg", metadata={"Date": None})


def compared(seeds: Sequence[int], found: Mapping[Job, dict[str, list[float]]]) -> dict[str, dict[str, Any]]:
    """By iteration after the first: what changed, and the paired difference of the loss at equal tokens."""
    names = list(ITERATIONS)
    runs = {name: [found[Job(name=name, seed=seed, steps=STEPS)] for seed in seeds] for name in names}
    told: dict[str, dict[str, Any]] = {}
    for before, after in pairwise(names):
        effects = {step: t_interval(at_tokens(runs[after], step) - at_tokens(runs[before], step)) for step in _READ}
        told[after] = {
            "over": before,
            "changed": changes(before, after),
            "combined_effect": {f"{step} steps": _numbers(effect) for step, effect in effects.items()},
            "single_effects": "not told apart here; see benchmarks.ablations",
        }
    return told


_READ = (STEPS // 2, STEPS)


def _numbers(effect: PairedEffect) -> list[float]:
    return [effect.mean, effect.low, effect.high]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--figure", type=Path, help="write an SVG here")
    options = parser.parse_args()
    jobs = [Job(name=name, seed=seed, steps=STEPS) for name in SETTINGS for seed in options.seeds]
    jobs += [Job(name=STUDY, seed=seed, steps=STEPS, breaks=True) for seed in options.seeds]
    found = {}
    with ProcessPoolExecutor(max_workers=2) as pool:
        for job, series in zip(jobs, pool.map(run, jobs), strict=True):
            found[job] = series
            sys.stderr.write(f"\r{len(found)}/{len(jobs)} trainings")
    sys.stderr.write("\n")
    tokens = TrainConfig().data.batch_size * TrainConfig().data.seq_len
    rows, told = leads(options.seeds, found, tokens), compared(options.seeds, found)
    for name, row in told.items():
        sys.stdout.write(f"{name} over {row['over']}, combined effect on the loss: {row['combined_effect']}\n")
        sys.stdout.write("".join(f"  {change}\n" for change in row["changed"]))
    for row in rows:
        sys.stdout.write(f"{row}\n")
    if options.figure:
        draw(options.figure, options.seeds, found, rows[0])
    if options.json:
        sys.stdout.write(json.dumps({"iterations": told, "leads": rows}) + "\n")


if __name__ == "__main__":
    main()
