"""The seam through which a training is run: a spec goes in, a run folder with events comes out.

A *launch* is one segment of one run. Backends (design section 7): `embedded` runs our trainer, `command` the
researcher's own script. The code version is checked out before the launch; a backend never touches git.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from contracts.events import Scalar

# Files in the segment folder by which a running training is asked for something, and by which it says that it did it.
# A training looks for them after each step; one that does not know them just goes on.
PAUSE_WISH = "pause"  # there: write a checkpoint and take no further step until it is gone
PAUSE_GRANTED = "paused"  # there while the training pauses
CHECKPOINT_WISH = "checkpoint"  # there: write a checkpoint now, then rename the file to CHECKPOINT_GRANTED
CHECKPOINT_GRANTED = "checkpoint-granted"


@dataclass(frozen=True, kw_only=True)
class Launch:
    """Everything that decides one segment, so that equal launches give equal results.

    `project` is a checked-out source tree (working directory and PYTHONPATH of the process). `entry` is
    `module:function` returning the recipe. `max_step` is the step at which the segment ends (not a count).
    """

    run_id: str
    segment: int
    run_folder: str
    project: str
    code_version: str
    entry: str = "recipe:recipe"
    overrides: Mapping[str, Scalar] = field(default_factory=dict)  # declared config fields, dotted keys
    seed: int | None = None  # None: as the recipe says
    start_checkpoint: str = ""  # folder; "" starts from random weights
    max_step: int | None = None  # None: as the recipe says
    num_threads: int = 1
    num_processes: int = 1  # of the training: the CPUs that a background one waits for
    background: bool = False  # yields the CPU to other trainings and waits for a free one
    cpu_limit_s: float | None = None  # of the training and what it starts; None: no limit
    spent_note: str = ""  # file in which its CPU and wall seconds are noted while it runs, with those of earlier starts

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Launch:
        return cls(**json.loads(text))

    @property
    def folder(self) -> Path:
        return Path(self.run_folder)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a launch ended. `reason` as in events.Finished, "died" when the process vanished, or "over_budget" when it
    used more CPU seconds than its launch allows."""

    run_id: str
    segment: int
    last_step: int
    reason: str
    message: str = ""
    remedy: str = ""
    cpu_s: float = 0.0
    wall_s: float = 0.0


class TrainerBackend(Protocol):
    """Runs launches in the background. All methods are safe to call again after a crash of the caller."""

    name: str

    def submit(self, launch: Launch) -> None:
        """Start it unless this (run, segment) is already running here."""
        ...

    def poll(self, run_id: str, segment: int) -> Outcome | None:
        """The outcome, or None while it runs."""
        ...

    def cancel(self, run_id: str, segment: int) -> None:
        """Stop it; the training gets the chance to write a checkpoint."""
        ...

    def close(self) -> None:
        """Stop everything that was submitted and release the workers."""
        ...
