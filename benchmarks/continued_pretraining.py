"""Continued pretraining in phases: loss on a held-out codebase over tokens, one JSON object as the last line (RC2-3.1).

The recipe `trainer.recipes.continued_pretraining`: a main length (64 tokens), a long context (512), a brief SFT on
coding tasks (templates). The training reads the standard library; the held-out codebase is Lathe's own trainer and
kernels, the held-out tasks are others of the same templates. `--steps` scales the phases; `--figure FILE` draws them.

    table        phase, steps, tokens so far, held-out loss (nats per byte) at the end of each phase
    by_position  held-out loss of positions by bucket, in rows of 512, at the end of each phase
    tasks_right  held-out tasks that are answered exactly right greedily, at the end of each phase, Wilson's interval
    r_squared    of a straight line through loss against log tokens over the second half of the main phase (RC2-3.2)
    residual     the largest distance of a point from that line, in nats
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.coding_tasks import Task, coding_tasks, share, write_examples
from trainer.config import TrainConfig
from trainer.held_out import Point, held_out_curve, loss_by_position
from trainer.recipe import Recipe
from trainer.recipes.continued_pretraining import recipe
from trainer.session import keep_freed_memory, make_deterministic
from trainer.tiny_sft import answered

_ROOT = Path(__file__).parents[1]
_PHASES = {"main": 1.0, "long": 1 / 6, "sft": 1 / 6}  # steps, by those of the main phase
_BUCKETS = (0, 64, 128, 256, 512)  # of positions; the first is what the main phase reads


def codebase(size: int) -> NDArray[np.uint8]:
    """So many bytes, half of them of the files of trainer and half of kernels, in the order of their paths."""
    found = b""
    for folder in ("trainer", "kernels"):
        found += b"".join(path.read_bytes() for path in sorted((_ROOT / folder).rglob("*.py")))[: size // 2]
    return np.frombuffer(found, dtype=np.uint8)


class PhaseEnds:
    """What is measured at the end of each phase beside the curve."""

    def __init__(self, text: NDArray[np.uint8], tasks: Sequence[Task]) -> None:
        self._text, self._tasks = text, tasks
        self.by_position: dict[str, dict[str, float]] = {}
        self.tasks_right: dict[str, dict[str, float]] = {}

    def __call__(self, phase: str, config: TrainConfig, weights: Mapping[str, Tensor]) -> None:
        loss_S = loss_by_position(config, weights, self._text, _BUCKETS[-1])
        pairs = itertools.pairwise(_BUCKETS)
        self.by_position[phase] = {f"{begin} to {end}": float(loss_S[begin:end].mean()) for begin, end in pairs}
        met = [answered(config, weights, t.prompt.encode(), t.answer.encode()) for t in self._tasks]
        self.tasks_right[phase] = share(sum(each.is_greedy for each in met), len(met))


def scaled_recipe(steps: int, examples: Path) -> Recipe:
    """The three phases with so many steps in the first, and the others in proportion."""
    scaled = {f"stages.{name}.steps": max(1, round(steps * part)) for name, part in _PHASES.items()}
    return recipe().with_overrides({**scaled, "stages.sft.data.examples": str(examples)})


def curve(steps: int, every: int, folder: Path) -> tuple[list[Point], PhaseEnds]:
    learned, held_out = coding_tasks(1)
    phases, text = scaled_recipe(steps, write_examples(learned, folder / "tasks.jsonl")), codebase(16_000)
    ends = PhaseEnds(text, held_out)
    points = held_out_curve(phases, text, every=every, seq_len=64, clock=time.perf_counter, at_end=ends)
    return [*points], ends


def straightness(points: Sequence[Point]) -> tuple[float, float]:
    """R squared of a line through loss against log tokens over the second half of the main phase; largest residual."""
    main = [point for point in points if point.stage == "main" and point.tokens]
    half = [point for point in main if point.tokens >= main[-1].tokens / 2]
    log_tokens, losses = np.log([p.tokens for p in half]), np.array([p.loss for p in half])
    residuals = losses - np.polyval(np.polyfit(log_tokens, losses, 1), log_tokens)
    return 1 - float(residuals.var() / losses.var()), float(np.abs(residuals).max())


def table_of(points: Sequence[Point]) -> list[dict[str, Any]]:
    """The last point of each phase."""
    last = {point.stage: point for point in points}
    return [{"phase": p.stage, "step": p.step, "tokens": p.tokens, "held_out_loss": p.loss} for p in last.values()]


def draw(points: Sequence[Point], file: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.4), layout="constrained")
    axes = figure.subplots()
    for phase in dict.fromkeys(point.stage for point in points):
        mine = [point for point in points if point.stage == phase and point.tokens]
        axes.plot([p.tokens for p in mine], [p.loss for p in mine], marker=".", label=phase)
    axes.set(xscale="log", xlabel="tokens read", ylabel="held-out loss (nats per byte)")
    axes.legend()
    figure.savefig(file, format="svg", metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the JSON object only")
    parser.add_argument("--steps", type=int, default=600, help="of the main phase")
    parser.add_argument("--every", type=int, default=30, help="steps between two measurements")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="draw the curve as SVG")
    options = parser.parse_args()
    make_deterministic(1)
    keep_freed_memory()
    with tempfile.TemporaryDirectory() as folder:
        points, ends = curve(options.steps, options.every, Path(folder))
    if options.figure:
        draw(points, options.figure)
    table = table_of(points)
    if not options.json:
        for row in table:
            sys.stdout.write("{phase:6} step {step:5} {tokens:9,} tokens  {held_out_loss:.4f}\n".format(**row))
    r_squared, residual = straightness(points)
    found = {
        "table": table,
        "by_position": ends.by_position,
        "tasks_right": ends.tasks_right,
        "r_squared": r_squared,
        "residual": residual,
        "curve": [[p.tokens, p.loss] for p in points],
    }
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
