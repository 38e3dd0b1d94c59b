"""Small coding tasks from templates: a signature, and the one body that is right; an answer is exactly right or not."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from scipy import stats

_BODIES = {
    "add": "{name} + {number}",
    "sub": "{name} - {number}",
    "mul": "{name} * {number}",
    "mod": "{name} % {number}",
    "max": "max({name}, {number})",
    "min": "min({name}, {number})",
}
_NAMES = "abknsxyz"
_HELD_OUT = 0.25


@dataclass(frozen=True, kw_only=True)
class Task:
    prompt: str
    answer: str


def coding_tasks(seed: int) -> tuple[list[Task], list[Task]]:
    """All tasks in an order of the seed: those to learn from, and others of the same families."""
    tasks = [
        Task(
            prompt=f"def {family}_{number}({name}):\n",
            answer=f"    return {body.format(name=name, number=number)}\n",
        )
        for (family, body), name, number in itertools.product(_BODIES.items(), _NAMES, range(10))
    ]
    order = np.random.default_rng(seed).permutation(len(tasks))
    split = round(_HELD_OUT * len(tasks))
    return [tasks[index] for index in order[split:]], [tasks[index] for index in order[:split]]


def write_examples(tasks: Sequence[Task], file: Path) -> Path:
    """As `data.examples` reads them."""
    file.write_text("".join(json.dumps(asdict(task)) + "\n" for task in tasks))
    return file


def share(right: int, of: int) -> dict[str, float]:
    """A share with Wilson's 95 % interval."""
    low, high = stats.binomtest(right, of).proportion_ci(method="wilson")
    return {"right": right, "of": of, "low": float(low), "high": float(high)}
