"""One part of Lathe as a process of its own, to be killed apart from the others.

python -m benchmarks.trust_kills.roles shipper|graph|dual READY_FILE [MARKS_FILE EXPERIMENT ...]

READY_FILE gets the process id after the first round of work. `dual` appends a line to MARKS_FILE for every stage it
works on. API and worker are the real services.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from context_store import Store
from context_store.records import Amount, Experiment
from contracts.enums import Stage
from contracts.errors import DatabaseUnavailable, NotFound
from control_plane.logging import configure_logging
from control_plane.services.keeper import keep, preload
from control_plane.services.worker import LATER
from control_plane.settings import Settings, load_settings
from control_plane.wiring import Lathe
from control_plane.worker import CaseThreads
from loops.dual import DualLoop, Report

_SPENT = Amount(cpu_s=1.0, tokens=10)
_COST = Amount(cpu_s=2.0, tokens=20)
_STAGE_S = 0.3


@dataclass(frozen=True, kw_only=True)
class Routine:
    """The work of an experiment: two analyses in each of two iterations, then the end."""

    store: Store
    marks: Path

    def perform(self, experiment: Experiment) -> Report:
        with self.marks.open("a") as file:
            file.write(f"{experiment.id} {experiment.sequence} {experiment.stage}\n")
        time.sleep(_STAGE_S)
        straight = {
            Stage.PLAN: Stage.DEVELOP,
            Stage.DEVELOP: Stage.ANALYSE,
            Stage.ANALYSE: Stage.REVIEW,
            Stage.REVIEW: Stage.ITERATE,
        }
        after = straight.get(experiment.stage) or self._iterate(experiment)
        note = f"{experiment.stage} of iteration {experiment.iteration}"
        return Report(after=after, note=note, spent=_SPENT, cost=_COST)

    def _iterate(self, experiment: Experiment) -> Stage:
        steps = self.store.experiments.history(experiment.id)
        again = [s for s in steps if s.before is Stage.ITERATE and s.iteration == experiment.iteration]
        if not any(step.after is Stage.ANALYSE for step in again):
            return Stage.ANALYSE
        return Stage.PLAN if experiment.iteration == 1 else Stage.ENDED


def ship(lathe: Lathe) -> Callable[[], object]:
    def step() -> None:
        lathe.shipper.catch_up(time.time())
        lathe.store.series.seal_waiting(min_frames=20)

    return step


def drive_graphs(lathe: Lathe) -> Callable[[], object]:
    cases = CaseThreads(lathe, time.time)
    return cases.look


def drive_experiments(lathe: Lathe, marks: Path, experiments: list[str]) -> Callable[[], object]:
    loop = DualLoop(lathe.store, Routine(store=lathe.store, marks=marks), clock=time.time)

    def step() -> None:
        for experiment in experiments:
            with suppress(NotFound):  # it is opened later
                loop.step(experiment)

    return step


def work(settings: Settings, role: str, ready: str, rest: list[str]) -> None:
    with Lathe.open(settings) as lathe:
        match role:
            case "shipper":
                step = ship(lathe)
            case "graph":
                step = drive_graphs(lathe)
            case _:
                step = drive_experiments(lathe, Path(rest[0]), rest[1:])
        while True:
            try:
                step()
                Path(ready).write_text(str(os.getpid()))
            except DatabaseUnavailable:
                pass
            time.sleep(0.2)


if __name__ == "__main__":
    settings = load_settings()
    configure_logging(settings.log_level, as_json=settings.log_json)
    preload(LATER)
    keep(lambda: work(settings, sys.argv[1], sys.argv[2], sys.argv[3:]))
