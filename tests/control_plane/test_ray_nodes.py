"""Ray with several nodes, and Ray whose head goes away: trainings go on from their last checkpoint.

The database is a process of its own, reached by its url, as an external one would be.
"""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from case import FINISHED, diagnostic, train_bad_run
from small_project import SmallProject, commit, git, make_project, until

from contracts.backend import Launch
from contracts.enums import EffectState
from contracts.events import CheckpointSaved, Metrics, read_events
from control_plane.backends.embedded import EmbeddedBackend
from control_plane.backends.segment import is_running
from control_plane.projects import register_project
from control_plane.settings import Settings
from control_plane.trainings import TrainingRequest, follow
from control_plane.wiring import Lathe

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
LONG = {"step_s": 0.02}
REAL = """
from trainer import Recipe, TrainConfig

def recipe():
    return Recipe(config=TrainConfig().with_overrides({
        "steps": 120, "checkpoint.every": 10, "model.num_layers": 2, "model.d_model": 16, "model.num_heads": 2,
        "model.num_kv_heads": 1, "data.corpus_bytes": 40_000,
    }))
"""


@pytest.fixture
def cpus_of_a_node() -> int:
    return 1


@pytest.fixture
def lathe(settings: Settings, cluster: Any) -> Iterator[Lathe]:
    with Lathe.open(settings.model_copy(update={"backend": "ray", "ray_address": cluster.address})) as opened:
        yield opened


def training_pid(folder: Path) -> int:
    """Of the process that trains in this run folder."""
    for process in psutil.process_iter(["cmdline"]):
        if any(str(folder) in part for part in process.info["cmdline"] or ()) and "trainer.child" in str(process.info):
            return int(process.pid)
    return 0


def node_of(cluster: Any, folder: Path) -> Any:
    """The node whose raylet the training descends from."""
    ancestors = {each.pid for each in psutil.Process(training_pid(folder)).parents()}
    for node in cluster.worker_nodes:
        if {each.process.pid for each in node.all_processes["raylet"]} & ancestors:
            return node
    raise AssertionError("the training runs on no worker node")


def saved(folder: Path) -> list[int]:
    """Steps of the checkpoints in the first segment."""
    log = folder / "segment-000" / "events.log"
    events = read_events(log) if log.exists() else ()
    return [read.event.step for read in events if isinstance(read.event, CheckpointSaved)]


def test_a_node_that_is_killed_takes_nothing_but_time(lathe: Lathe, small_project: SmallProject, cluster: Any) -> None:
    """The run goes on in its segment on the other node, from its last checkpoint."""
    train_bad_run(lathe, small_project)
    diagnostic(lathe, small_project, overrides=LONG, max_step=200)
    folder = lathe.settings.runs_folder / "rr-d1"
    executor = lathe.executor("worker-a")

    def reached(step: int) -> bool:
        executor.step()
        return bool(saved(folder)) and saved(folder)[-1] >= step

    until(lambda: reached(40), timeout_s=120)
    before, lost = saved(folder), node_of(cluster, folder)
    cluster.remove_node(lost, allow_graceful=False)

    def over() -> bool:
        executor.step()
        return lathe.store.effects.get("d1").state in FINISHED

    until(over, timeout_s=180)
    effect = lathe.store.effects.get("d1")
    assert effect.state is EffectState.DONE, effect.message
    assert (effect.result["last_step"], effect.attempt) == (200, 1)
    assert [each.name for each in folder.glob("segment-*")] == ["segment-000"]
    after = saved(folder)
    assert after[: len(before)] == before
    assert after[len(before)] == before[-1] + 10, "it went on from its last checkpoint, not from the beginning"
    assert any("starting it again" in each.text for each in lathe.store.activity.after(0, limit=1000))


def test_a_run_whose_worker_is_killed_ends_with_the_weights_of_one_that_nothing_befell(
    lathe: Lathe, tmp_path: Path
) -> None:
    """The real trainer over raylets: `follow` starts it again by itself; equal checkpoint hashes at the end."""
    folder = tmp_path / "real"
    folder.mkdir()
    (folder / "recipe.py").write_text(REAL)
    git(folder, "init", "-q", "-b", "main")
    head = commit(folder, "start")
    project = register_project(lathe.store, folder)
    lost: list[int] = []

    def trained(run_id: str, on_poll: Callable[[], None]) -> str:
        launch = lathe.trainings.begin(TrainingRequest(run_id=run_id, project=project, commit=head))
        assert follow(lathe.backend, lathe.shipper, launch, on_poll=on_poll).reason == "completed"
        log = read_events(launch.folder / "segment-000" / "events.log")
        saved = [read.event for read in log if isinstance(read.event, CheckpointSaved)]
        assert [event.step for event in saved] == list(range(10, 121, 10))
        return saved[-1].sha256

    def kill_worker() -> None:
        run_folder = lathe.settings.runs_folder / "killed"
        if not lost and saved(run_folder) and (pid := training_pid(run_folder)):
            (worker,) = [each for each in psutil.Process(pid).parents() if each.name().startswith("ray::run_segm")]
            lost.append(worker.pid)
            worker.kill()

    assert trained("killed", kill_worker) == trained("whole", lambda: None)
    assert lost


@pytest.mark.parametrize("killed", [("gcs_server", "raylet"), ("raylet",)])
def test_a_head_that_is_killed_is_started_again(tmp_path: Path, killed: tuple[str, ...]) -> None:
    """This process outlives it, the training's end is told, and the same segment goes on under the new head."""
    project = make_project(tmp_path / "project")
    launch = Launch(
        run_id="a", segment=0, run_folder=str(tmp_path / "a"), project=str(project.folder), code_version=project.good,
        overrides=LONG, max_step=100_000,
    )  # fmt: skip
    backend = EmbeddedBackend(num_cpus=1, ray_address="", cancel_grace_s=5)
    try:
        backend.submit(launch)
        until(lambda: bool(saved(launch.folder)), timeout_s=120)
        for process in psutil.Process().children(recursive=True):
            if process.name() in killed:
                process.send_signal(signal.SIGKILL)
        until(lambda: backend.poll("a", 0) is not None, timeout_s=150)
        outcome = backend.poll("a", 0)
        assert outcome is not None
        assert (outcome.reason, bool(outcome.remedy)) == ("died", True)
        until(lambda: not is_running(launch.folder, 0), timeout_s=30)
        reached = saved(launch.folder)[-1]
        backend.submit(dataclasses.replace(launch, max_step=reached + 30))
        until(lambda: backend.poll("a", 0) is not None, timeout_s=120)
        outcome = backend.poll("a", 0)
        assert outcome is not None
        assert (outcome.reason, outcome.last_step) == ("completed", reached + 30)
    finally:
        backend.close()
    log = read_events(launch.folder / "segment-000" / "events.log")
    steps = [read.event.step for read in log if isinstance(read.event, Metrics)]
    assert steps.count(1) == 1, "never from the beginning"
