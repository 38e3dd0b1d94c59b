"""The bridge to MLflow both ways: our runs appear there, runs that are there are followed. A real MLflow on SQLite."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest
from mlflow import MlflowClient

from context_store import Store
from context_store.importers import Options, discover
from context_store.importers import store as bring
from context_store.records import NewRun, Project
from contracts.enums import RunRole, RunState
from contracts.errors import EnvironmentFault
from contracts.events import CheckpointSaved, Event, Finished, Metrics, SegmentStarted, encode, segment_folder
from control_plane.mlflow_sink import RUN_TAG, Mirrored, MlflowSink
from control_plane.settings import Settings
from control_plane.upkeep import Upkeep
from control_plane.wiring import Lathe

RUN = "run-1"


@pytest.fixture(scope="session")
def empty_mlflow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MLflow's database, made once, because that takes seconds."""
    path = tmp_path_factory.mktemp("mlflow") / "empty.db"
    MlflowClient(f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture
def uri(empty_mlflow: Path, tmp_path: Path) -> str:
    (tmp_path / "mlflow.db").write_bytes(empty_mlflow.read_bytes())
    return f"sqlite:///{tmp_path}/mlflow.db"


def ship(store: Store, folder: Path, segment: int, *events: Event) -> None:
    log = segment_folder(folder, segment) / "events.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        file.write(b"".join(encode(event) for event in events))
    store.ingest.ship(RUN, folder)


def begin(store: Store, folder: Path, segment: int, start: int) -> None:
    store.projects.put(Project(id="p", path="/p"))
    store.runs.create(NewRun(id=RUN, project_id="p", name="base", role=RunRole.TRAINING, folder=str(folder)))
    config = {"optim.lr": 0.01, "note": "x" * 7000, "odd key:1": True}
    started = SegmentStarted(
        run_id=RUN, segment=segment, start_step=start, code_version="c0ffee", seed=3, dp_size=1,
        start_checkpoint="", config=config, environment={}, wall_time=1_000_000.0,
    )  # fmt: skip
    ship(store, folder, segment, started)


def steps(lo: int, hi: int, loss: float) -> list[Event]:
    return [
        Metrics(step=s, values={"loss": loss + s, "max_vio/layers.1": 1.0, "grad_norm/head": math.inf})
        for s in range(lo, hi)
    ]


def mirrored(sink: MlflowSink, store: Store) -> Mirrored:
    found = sink.mirror(store.runs.get(RUN))
    assert found is not None
    return found


def test_a_run_without_an_event_waits_for_its_parameters(store: Store, tmp_path: Path, uri: str) -> None:
    """They stand in its first event; an MLflow run gets them when it is made."""
    store.projects.put(Project(id="p", path="/p"))
    store.runs.create(NewRun(id=RUN, project_id="p", name="base", role=RunRole.TRAINING, folder=str(tmp_path / RUN)))
    sink = MlflowSink(store, uri)
    assert sink.mirror(store.runs.get(RUN)) is None
    begin(store, tmp_path / RUN, 0, 0)
    copy = MlflowClient(uri).get_run(mirrored(sink, store).mlflow_run_id)
    assert (copy.data.params["seed"], copy.data.tags["mlflow.source.git.commit"]) == ("3", "c0ffee")


def test_a_run_appears_with_everything_and_only_what_is_new_is_added(store: Store, tmp_path: Path, uri: str) -> None:
    folder = tmp_path / RUN
    begin(store, folder, 0, 0)
    saved = CheckpointSaved(step=4, path=f"{folder}/step-4", sha256="ab" * 32, size_bytes=1)
    ship(store, folder, 0, *steps(1, 5, 0.0), saved)
    sink, client = MlflowSink(store, uri), MlflowClient(uri)
    first = mirrored(sink, store)
    assert (first.num_metrics, first.num_checkpoints) == (8, 1)
    again = mirrored(sink, store)
    assert (again.mlflow_run_id, again.num_metrics, again.num_checkpoints) == (first.mlflow_run_id, 0, 0)
    ship(store, folder, 0, *steps(5, 7, 0.0), Finished(step=6, reason="stopped"))
    assert mirrored(MlflowSink(store, uri), store).num_metrics == 4
    copy = client.get_run(first.mlflow_run_id)
    assert (copy.info.run_name, copy.info.status, copy.data.tags[RUN_TAG]) == ("base", "KILLED", RUN)
    assert copy.data.params["optim.lr"] == "0.01"
    assert copy.data.params["seed"] == "3"
    assert copy.data.params["odd key_1"] == "True"
    assert len(copy.data.params["note"]) == 6000
    history = client.get_metric_history(first.mlflow_run_id, "loss")
    assert [(point.step, point.value) for point in history] == [(s, float(s)) for s in range(1, 7)]
    assert client.get_metric_history(first.mlflow_run_id, "grad_norm/head")[0].value == sys.float_info.max, (
        "MLflow's database keeps an infinity as the largest float"
    )
    assert "max_vio/layers.1" not in copy.data.metrics, "dense series stay in the store"
    (model,) = client.search_logged_models([copy.info.experiment_id])
    assert (model.name, model.tags["lathe.sha256"]) == ("step-000004", "ab" * 32)


def test_a_resume_copies_its_steps_again_and_a_completed_run_becomes_a_model(
    store: Store, tmp_path: Path, uri: str
) -> None:
    folder = tmp_path / RUN
    begin(store, folder, 0, 0)
    ship(store, folder, 0, *steps(1, 9, 0.0), Finished(step=8, reason="stopped"))
    sink, client = MlflowSink(store, uri), MlflowClient(uri)
    run_id = mirrored(sink, store).mlflow_run_id
    begin(store, folder, 1, 4)
    ship(store, folder, 1, *steps(5, 7, 100.0))
    assert mirrored(sink, store).num_metrics == 4
    assert client.get_run(run_id).info.status == "RUNNING"
    saved = CheckpointSaved(step=9, path=f"{folder}/step-9", sha256="cd" * 32, size_bytes=1)
    ship(store, folder, 1, *steps(7, 10, 100.0), saved, Finished(step=9, reason="completed"))
    sink.mirror(store.runs.get(RUN))
    assert client.get_run(run_id).info.status == "FINISHED"
    history = client.get_metric_history(run_id, "loss")
    assert sorted(point.value for point in history if point.step == 5) == [5.0, 105.0]
    sink.mirror(store.runs.get(RUN))
    (version,) = client.search_model_versions("name = 'p'")
    assert (version.run_id, version.tags["lathe.sha256"]) == (run_id, "cd" * 32)


def test_a_copy_of_ours_is_not_imported_and_a_running_run_is_followed(store: Store, tmp_path: Path, uri: str) -> None:
    begin(store, tmp_path / RUN, 0, 0)
    ship(store, tmp_path / RUN, 0, *steps(1, 5, 0.0))
    MlflowSink(store, uri).mirror(store.runs.get(RUN))
    client = MlflowClient(uri)
    theirs = client.create_run(client.create_experiment("theirs"), run_name="other").info.run_id
    client.log_param(theirs, "lr", 0.1)
    for step in (1, 2):
        client.log_metric(theirs, "loss", 5.0 - step, step=step)
    assert follow(store, uri) == 2
    client.log_metric(theirs, "loss", 1.0, step=3)
    assert follow(store, uri) == 1
    (found,) = [run for run in store.runs.list() if run.id != RUN]
    assert (found.name, found.state) == ("other", RunState.RUNNING)
    assert store.runs.declared(found.id, 0)["lr"] == 0.1
    assert store.series.read(found.id, "loss").values.tolist() == [4.0, 3.0, 1.0]


def follow(store: Store, uri: str) -> int:
    """One round of `lathe ingest --follow`; the number of new points."""
    found, _ = discover(uri.removeprefix("sqlite:///"))
    options = Options(actor="anna", following=True)
    report = bring(list(found), store.url, options, clock=lambda: 1.0, tell=lambda _: None)
    assert len(report.runs) == 1
    assert [problem.what for problem in report.problems] == ["a copy that Lathe itself made of one of its runs"]
    return report.runs[0].num_new or 0


def test_a_worker_keeps_both_up_and_a_fault_there_disturbs_nothing(
    settings: Settings, tmp_path: Path, uri: str
) -> None:
    with Lathe.open(settings.model_copy(update={"mlflow_uri": uri, "embedder": "hashed"})) as lathe:
        begin(lathe.store, tmp_path / RUN, 0, 0)
        ship(lathe.store, tmp_path / RUN, 0, *steps(1, 5, 0.0), Finished(step=4, reason="completed"))
        lathe.store.knowledge.open_investigation("c", RUN, [], "something odd", at=1.0)
        Upkeep(lathe).step()
        coverage = lathe.store.search.coverage()
        assert coverage.num_embedded == coverage.num_texts > 0
        (copy,) = MlflowClient(uri).search_runs([MlflowClient(uri).get_experiment_by_name("p").experiment_id])
        assert copy.data.metrics["loss"] == 4.0
    nowhere = "http://127.0.0.1:1"
    with Lathe.open(settings.model_copy(update={"mlflow_uri": nowhere, "embedder": "hashed"})) as lathe:
        Upkeep(lathe).step()
        with pytest.raises(EnvironmentFault, match=r"127\.0\.0\.1:1") as caught:
            MlflowSink(lathe.store, nowhere).mirror(lathe.store.runs.get(RUN))
        assert "LATHE_MLFLOW_URI" in caught.value.remedy
