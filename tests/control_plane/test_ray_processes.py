"""Trainings of several processes under Ray: the CPUs they wait for, and a worker that dies under one (RC2-7.1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from small_project import until

from contracts.backend import Launch
from contracts.events import CheckpointSaved, Finished, Metrics, SegmentStarted, read_events, segment_folder
from control_plane.backends.embedded import EmbeddedBackend
from control_plane.backends.segment import is_running
from control_plane.run_folders import started_config

STEPS = 60
RECIPE = f"""from trainer import Recipe, TrainConfig


def recipe():
    small = {{
        "steps": {STEPS}, "model.num_layers": 2, "model.d_model": 16, "model.num_heads": 2, "model.num_kv_heads": 1,
        "model.head_dim": 8, "moe.num_experts": 4, "moe.d_expert": 8, "data.seq_len": 16, "data.corpus_bytes": 40_000,
        "checkpoint.every": 10, "parallel.processes": True, "parallel.dp_size": 2, "parallel.ep_size": 2,
    }}
    return Recipe(config=TrainConfig().with_overrides(small))
"""


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    project = tmp_path / "project"
    project.mkdir()
    (project / "recipe.py").write_text(RECIPE)
    return Launch(run_id="a", segment=0, run_folder=str(tmp_path / "a"), project=str(project), code_version="")


@pytest.fixture
def backend() -> Iterator[EmbeddedBackend]:
    ray = EmbeddedBackend(num_cpus=2, ray_address="", cancel_grace_s=5)
    yield ray
    ray.close()


def named(launch: Launch, run: str, **fields: Any) -> Launch:
    return replace(launch, run_id=run, run_folder=str(launch.folder.parent / run), **fields)


def events(launch: Launch) -> list[Any]:
    log = segment_folder(launch.folder, launch.segment) / "events.log"
    return [read.event for read in read_events(log)] if log.exists() else []


def last_checkpoint(launch: Launch) -> CheckpointSaved:
    return [event for event in events(launch) if isinstance(event, CheckpointSaved)][-1]


def wait_for(backend: EmbeddedBackend, launch: Launch) -> None:
    until(lambda: backend.poll(launch.run_id, 0) is not None, timeout_s=240)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_re_run_of_two_processes_waits_for_two_cpus(backend: EmbeddedBackend, launch: Launch) -> None:
    """Two of them on two CPUs come one after the other; one that wants more than there are runs all the same."""
    reruns = [named(launch, run, background=True, num_processes=num) for run, num in (("a", 2), ("b", 2), ("c", 64))]
    for each in reruns:
        backend.submit(each)
    at_once = 0
    while any(backend.poll(each.run_id, 0) is None for each in reruns):
        at_once = max(at_once, sum(is_running(each.folder, 0) for each in reruns))
    assert at_once == 1
    assert [events(each)[-1] for each in reruns] == [Finished(step=STEPS, reason="completed")] * 3


def test_the_config_of_a_segment_says_how_many_processes_it_had(launch: Launch) -> None:
    from control_plane.backends.segment import run_segment

    run_segment(replace(launch, max_step=1), cancel_grace_s=5)
    config = started_config(launch.folder, 0)
    assert (config["parallel.processes"], config["parallel.dp_size"], config["parallel.cp_size"]) == (True, 2, 1)
    assert started_config(launch.folder, 7) == {}


@pytest.fixture
def cpus_of_a_node() -> int:
    return 2


def worker_of(launch: Launch) -> psutil.Process:
    """The Ray worker that started the training's first process."""
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        if command[-3:-1] == ["-m", "trainer.child"] and str(launch.folder) in command[-1]:
            parent = process.parent()
            assert parent is not None
            return parent
    raise AssertionError("the training does not run")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_worker_that_dies_changes_no_weight(cluster: Any, launch: Launch) -> None:
    """Killed mid-run on one of three raylets and started again: the last checkpoint is that of an uninterrupted run."""
    backend = EmbeddedBackend(num_cpus=1, ray_address=cluster.address, cancel_grace_s=5)
    killed, whole = named(launch, "killed"), named(launch, "whole")
    try:
        backend.submit(killed)
        until(lambda: any(isinstance(e, CheckpointSaved) and e.step >= 20 for e in events(killed)), timeout_s=240)
        worker_of(killed).kill()
        wait_for(backend, killed)
        outcome = backend.poll("killed", 0)
        assert outcome is not None
        assert outcome.reason == "died"
        reached = last_checkpoint(killed).step
        assert reached < STEPS
        until(lambda: not is_running(killed.folder, 0), timeout_s=30)
        backend.submit(killed)
        wait_for(backend, killed)
        backend.submit(whole)
        wait_for(backend, whole)
    finally:
        backend.close()
    assert last_checkpoint(killed).step == last_checkpoint(whole).step == STEPS
    assert last_checkpoint(killed).sha256 == last_checkpoint(whole).sha256
    steps = [event.step for event in events(killed) if isinstance(event, Metrics)]
    assert steps.count(1) == 1, "it went on from its last checkpoint, not from the beginning"
    assert sum(isinstance(event, SegmentStarted) for event in events(killed)) == 1
