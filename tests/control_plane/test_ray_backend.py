"""The embedded backend with real Ray and the real trainer: bitwise equal runs, a killed worker, loopback only."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from small_project import until

from contracts.backend import Launch, Outcome
from contracts.events import Metrics, read_events
from control_plane.backends.embedded import EmbeddedBackend
from control_plane.backends.segment import is_running

RECIPE = """
from trainer import Recipe, TrainConfig

def recipe():
    return Recipe(config=TrainConfig().with_overrides({"steps": 6, "checkpoint.every": 2}))
"""


@pytest.fixture(scope="module")
def backend() -> Iterator[EmbeddedBackend]:
    ray = EmbeddedBackend(num_cpus=2, ray_address="", cancel_grace_s=10)
    yield ray
    ray.close()
    assert [child for child in psutil.Process().children(recursive=True) if "ray" in child.name()] == []


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    (tmp_path / "recipe.py").write_text(RECIPE)
    return Launch(run_id="a", segment=0, run_folder=str(tmp_path / "a"), project=str(tmp_path), code_version="c")


def result(backend: EmbeddedBackend, launch: Launch) -> Outcome:
    until(lambda: backend.poll(launch.run_id, 0) is not None, timeout_s=120)
    outcome = backend.poll(launch.run_id, 0)
    assert outcome is not None
    return outcome


def losses(launch: Launch) -> list[float]:
    log = launch.folder / "segment-000" / "events.log"
    return [read.event.values["loss"] for read in read_events(log) if isinstance(read.event, Metrics)]


def test_a_real_training_runs_and_repeats_bit_for_bit(backend: EmbeddedBackend, launch: Launch, tmp_path: Path) -> None:
    twin = dataclasses.replace(launch, run_id="b", run_folder=str(tmp_path / "b"))
    for each in (launch, twin):
        backend.submit(each)
    outcomes = [result(backend, each) for each in (launch, twin)]
    assert [(each.reason, each.last_step) for each in outcomes] == [("completed", 6)] * 2
    assert outcomes[0].cpu_s > 0
    assert losses(launch) == losses(twin)
    assert len(losses(launch)) == 6


def test_ray_listens_on_loopback_only(backend: EmbeddedBackend) -> None:
    backend.warm_up().result()
    family = [psutil.Process(), *psutil.Process().children(recursive=True)]
    listening = []
    for process in family:
        with suppress(psutil.NoSuchProcess):  # it has ended since
            listening += [each for each in process.net_connections() if each.status == psutil.CONN_LISTEN]
    assert listening
    assert {each.laddr.ip for each in listening} <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


def test_a_killed_worker_is_reported_and_its_training_goes_on(backend: EmbeddedBackend, launch: Launch) -> None:
    long = dataclasses.replace(launch, max_step=100_000)
    backend.submit(long)
    until(lambda: (long.folder / "checkpoints").exists() and is_running(long.folder, 0), timeout_s=60)
    (worker,) = [p for p in psutil.Process().children(recursive=True) if p.name().startswith("ray::run_segm")]
    os.kill(worker.pid, signal.SIGKILL)
    outcome = result(backend, long)
    assert outcome.reason == "died"
    assert "Ray worker" in outcome.message
    assert outcome.remedy
    until(lambda: not is_running(long.folder, 0))
    reached = len(losses(long))
    backend.submit(dataclasses.replace(long, max_step=reached + 2))
    assert result(backend, long).last_step == reached + 2
