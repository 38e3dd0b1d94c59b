"""The checkpoint monitor: measured when a run has grown by half, within what its project may spend. Shows R801-4.17."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from test_schedules import once, set_one

from context_store.records import Amount, NewRun, Project
from contracts.enums import EffectKind, Role, RunRole, ScheduleAction
from contracts.events import CheckpointSaved, SegmentStarted, encode, segment_folder
from control_plane.wiring import Lathe
from loops.core import Limits
from loops.potential.loop import PotentialLoop
from loops.potential.monitor import due
from loops.runner import CaseStatus, Runner
from trainer.config import TrainConfig


class GrowingRun:
    """A training of the embedded trainer, by what it logs."""

    def __init__(self, lathe: Lathe, folder: Path) -> None:
        self._store, self._folder = lathe.store, folder
        self._log = segment_folder(folder, 0) / "events.log"
        self._log.parent.mkdir(parents=True)
        lathe.store.projects.put(Project(id="p", path=str(folder)))
        lathe.store.runs.create(
            NewRun(id="grows", project_id="p", name="grows", role=RunRole.TRAINING, folder=str(folder))
        )
        start = SegmentStarted(
            run_id="grows", segment=0, start_step=0, code_version="c0ffee", seed=1, dp_size=1, start_checkpoint="",
            config=TrainConfig().flat(), environment={}, wall_time=1.0,
        )  # fmt: skip
        self._log.write_bytes(encode(start))

    def saves(self, *steps: int) -> None:
        with self._log.open("ab") as file:
            for step in steps:
                file.write(encode(CheckpointSaved(step=step, path=f"/c/{step}", sha256=f"s{step}", size_bytes=1)))
        self._store.ingest.ship("grows", self._folder)


@pytest.fixture
def run(lathe: Lathe, tmp_path: Path) -> GrowingRun:
    return GrowingRun(lathe, tmp_path / "grows")


def test_a_run_is_due_again_when_it_has_grown_by_half(lathe: Lathe, run: GrowingRun) -> None:
    set_one(lathe.store, ScheduleAction.MEASURE)
    run.saves(50)
    assert due(lathe.store, "grows") is None  # one checkpoint is no trend
    run.saves(100)
    assert once(lathe, 2000.0).last_message == "looked at 1 runs, opened 1 cases"
    (case,) = lathe.store.knowledge.investigations(run_id="grows")
    assert lathe.store.casework.get(case.id, "plan", "plan").body["steps"] == [50, 100]
    run.saves(140)
    assert once(lathe, 2061.0).last_message == "looked at 1 runs, opened 0 cases"
    run.saves(150)
    assert once(lathe, 2122.0).last_message == "looked at 1 runs, opened 1 cases"
    assert due(lathe.store, "grows") is None


def test_a_run_behind_many_newer_ones_is_looked_at_too(lathe: Lathe, run: GrowingRun) -> None:
    run.saves(50, 100)
    for number in range(200):
        lathe.store.runs.create(
            NewRun(id=f"newer-{number:03}", project_id="p", name="n", role=RunRole.TRAINING, folder="")
        )
    set_one(lathe.store, ScheduleAction.MEASURE)
    assert once(lathe, 2000.0).last_message == "looked at 201 runs, opened 1 cases"


def test_the_budget_of_the_project_ends_a_measurement(lathe: Lathe, run: GrowingRun) -> None:
    store = lathe.store
    run.saves(50, 100)
    set_one(store, ScheduleAction.MEASURE)
    once(lathe, 2000.0)
    (case,) = store.knowledge.investigations(run_id="grows")
    store.budgets.allow_project("p", Amount(cpu_s=1.0, reruns=9, wall_s=9.0), "root", Role.ADMIN, "little", 1.0)
    runner = Runner(
        store=store, checkpointer=InMemorySaver(), loops={"potential": PotentialLoop(store)}, limits=Limits(cpu_s=1e4)
    )
    assert runner.start("potential", case.id).status is CaseStatus.CLOSED
    assert "the budget is spent" in store.knowledge.investigation(case.id).statement
    assert store.effects.claim("here", (EffectKind.CASE_WORK,), 60.0, time.time()) is None
    (negative,) = store.negatives.list(investigation_id=case.id)
    assert negative.reason_class == "not_measured"
