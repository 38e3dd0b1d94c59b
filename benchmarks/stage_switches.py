"""Loss over the switches of a staged recipe: one JSON object as the last line, and a figure (R801-7.4).

The recipe is `trainer.recipes.three_stages`: the optimizer goes on at the first switch and is reset at the second,
where rows become four times as long. `--figure FILE` draws it.

    switches     for each switch: its step, and the mean loss of the ten steps before it and behind it (nats per byte)
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from trainer.recipe import PlannedStage
from trainer.recipes.three_stages import recipe
from trainer.session import keep_freed_memory, make_deterministic
from trainer.staged import StagedTraining

_AROUND = 10  # steps


def trained() -> tuple[list[float], tuple[PlannedStage, ...]]:
    """The language-model loss of each step, and the stages."""
    plan = recipe().plan()
    training = StagedTraining(recipe(), None, time.perf_counter)
    return [training.advance().values["lm_loss"] for _ in range(plan[-1].last_step)], plan


def around(losses: Sequence[float], step: int) -> dict[str, float]:
    before, behind = losses[step - _AROUND : step], losses[step : step + _AROUND]
    return {"step": step, "before": sum(before) / _AROUND, "behind": sum(behind) / _AROUND}


def draw(losses: Sequence[float], plan: Sequence[PlannedStage], file: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.4), layout="constrained")
    axes = figure.subplots()
    for stage in plan:
        steps = range(stage.first_step + 1, stage.last_step + 1)
        begins = "optimizer reset" if stage.resets_optimizer else f"rotary base {stage.config.model.rope_base:g}"
        axes.plot(steps, losses[stage.first_step : stage.last_step], label=f"{stage.name}: {begins}")
        axes.axvline(stage.first_step + 0.5, color="grey", linewidth=0.5)
    axes.set(xlabel="step", ylabel="loss (nats per byte)")
    axes.legend()
    figure.savefig(file, format="svg", metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="as always: the JSON object is all there is")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="draw the losses as SVG")
    options = parser.parse_args()
    make_deterministic(1)
    keep_freed_memory()
    losses, plan = trained()
    if options.figure:
        draw(losses, plan, options.figure)
    switches = [around(losses, stage.first_step) for stage in plan[1:]]
    sys.stdout.write(json.dumps({"switches": switches, "last": sum(losses[-_AROUND:]) / _AROUND}) + "\n")


if __name__ == "__main__":
    main()
