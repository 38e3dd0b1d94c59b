"""Continued pretraining in phases: loss on a held-out codebase over tokens, one JSON object as the last line (RC2-3.1).

The recipe `trainer.recipes.continued_pretraining`: a main length, a long context, a brief SFT on coding tasks. The
training reads the standard library; the tasks are short functions of it (signature -> body); the held-out codebase is
Lathe's own trainer and kernels. `--steps` scales the phases; `--figure FILE` draws the curve.

    table        phase, steps, tokens so far, held-out loss (nats per byte) at the end of each phase
    r_squared    of a straight line through loss against log tokens over the second half of the main phase (RC2-3.2)
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainer.held_out import Point, held_out_curve
from trainer.recipes.continued_pretraining import recipe
from trainer.session import keep_freed_memory, make_deterministic

_ROOT = Path(__file__).parents[1]
_PHASES = {"main": 1.0, "long": 1 / 6, "sft": 1 / 15}  # steps, by those of the main phase
_LONGEST_TASK = 400  # bytes


def codebase(size: int) -> NDArray[np.uint8]:
    """The first bytes of the files of trainer and kernels, in the order of their paths."""
    files = sorted(path for folder in ("trainer", "kernels") for path in (_ROOT / folder).glob("*.py"))
    return np.frombuffer(b"".join(path.read_bytes() for path in files)[:size], dtype=np.uint8)


def tasks(count: int) -> Iterator[dict[str, str]]:
    """Signature and body of short functions of the standard library."""
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        lines = path.read_text(errors="replace").splitlines(keepends=True)
        for node in ast.parse("".join(lines)).body:
            if isinstance(node, ast.FunctionDef) and node.end_lineno and count:
                first = node.body[0].lineno - 1
                task = {
                    "prompt": "".join(lines[node.lineno - 1 : first]),
                    "answer": "".join(lines[first : node.end_lineno]),
                }
                if task["prompt"] and sum(len(text.encode()) for text in task.values()) < _LONGEST_TASK:
                    count -= 1
                    yield task


def curve(steps: int, every: int, folder: Path) -> list[Point]:
    examples = folder / "tasks.jsonl"
    examples.write_text("".join(json.dumps(task) + "\n" for task in tasks(300)))
    scaled = {f"stages.{name}.steps": max(1, round(steps * share)) for name, share in _PHASES.items()}
    phases = recipe().with_overrides({**scaled, "stages.sft.data.examples": str(examples)})
    return [*held_out_curve(phases, codebase(16_000), every=every, seq_len=64, clock=time.perf_counter)]


def straightness(points: Sequence[Point]) -> float:
    """R squared of loss against log tokens over the second half of the main phase."""
    main = [point for point in points if point.stage == "main" and point.tokens]
    half = [point for point in main if point.tokens >= main[-1].tokens / 2]
    return float(np.corrcoef(np.log([p.tokens for p in half]), [p.loss for p in half])[0, 1] ** 2)


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
        points = curve(options.steps, options.every, Path(folder))
    if options.figure:
        draw(points, options.figure)
    table = table_of(points)
    if not options.json:
        for row in table:
            sys.stdout.write("{phase:6} step {step:5} {tokens:9,} tokens  {held_out_loss:.4f}\n".format(**row))
    found = {"table": table, "r_squared": straightness(points), "curve": [[p.tokens, p.loss] for p in points]}
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
