"""Priorities and caps on real Ray: re-runs never starve a main run, however many of them wait."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from small_project import SmallProject, make_project, until

from contracts.backend import Launch
from contracts.events import Metrics, read_events, segment_folder
from control_plane.backends.embedded import EmbeddedBackend
from control_plane.backends.segment import is_running

NUM_RERUNS = 5
STEPS = 15  # of the main run, a tenth of a CPU second each


@pytest.fixture
def backend() -> Iterator[EmbeddedBackend]:
    ray = EmbeddedBackend(num_cpus=2, ray_address="", cancel_grace_s=5)
    yield ray
    ray.close()


@pytest.fixture
def small(tmp_path: Path) -> SmallProject:
    return make_project(tmp_path / "project")


def launch(small: SmallProject, name: str, *, max_step: int, background: bool) -> Launch:
    return Launch(
        run_id=name,
        segment=0,
        run_folder=str(small.folder.parent / name),
        project=str(small.folder),
        code_version=small.good,
        overrides={"step_s": 0.0, "burn_s": 0.1},
        max_step=max_step,
        background=background,
    )


def num_steps(each: Launch) -> int:
    log = segment_folder(each.folder, each.segment) / "events.log"
    return sum(isinstance(read.event, Metrics) for read in read_events(log)) if log.exists() else 0


def trainings() -> dict[str, psutil.Process]:
    """Training processes of this Ray by run."""
    found = {}
    for process in psutil.Process().children(recursive=True):
        try:
            command = process.cmdline()
        except psutil.NoSuchProcess:  # it has just ended
            continue
        if "trainer.child" in command:
            found[Path(command[-1]).parents[1].name] = process
    return found


def cpu_s(process: psutil.Process) -> float:
    used = process.cpu_times()
    return used.user + used.system


@pytest.mark.timeout(300)
def test_a_main_run_goes_first_while_reruns_fill_every_cpu(backend: EmbeddedBackend, small: SmallProject) -> None:
    """It begins at once though no CPU is free, gets more of them than any re-run, and ends before they do; no more
    than two re-runs run, the others wait their turn."""
    reruns = [launch(small, f"rr-{n}", max_step=100_000, background=True) for n in range(NUM_RERUNS)]
    for each in reruns:
        backend.submit(each)
    until(lambda: sum(num_steps(each) > 0 for each in reruns) == 2, timeout_s=120)
    running = [each for each in reruns if num_steps(each)]
    main = launch(small, "main", max_step=STEPS, background=False)
    backend.submit(main)
    until(lambda: num_steps(main) > 0, timeout_s=60)
    processes = trainings()
    assert sorted(processes) == sorted(["main", *(each.run_id for each in running)])
    assert processes["main"].nice() < min(processes[each.run_id].nice() for each in running)
    before = {name: cpu_s(process) for name, process in processes.items()}
    until(lambda: num_steps(main) >= STEPS - 1, timeout_s=120)
    used = {name: cpu_s(process) - before[name] for name, process in processes.items()}
    until(lambda: backend.poll("main", 0) is not None, timeout_s=60)
    outcome = backend.poll("main", 0)
    assert outcome is not None
    assert (outcome.reason, outcome.last_step) == ("completed", STEPS)
    assert all(used["main"] > used[each.run_id] for each in running), used
    assert [backend.poll(each.run_id, 0) for each in reruns] == [None] * NUM_RERUNS
    assert [num_steps(each) for each in reruns if each not in running] == [0] * (NUM_RERUNS - 2)
    for each in running:
        backend.cancel(each.run_id, 0)
    until(lambda: not any(is_running(each.folder, 0) for each in running), timeout_s=60)
