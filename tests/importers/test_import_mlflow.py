"""MLflow's folders, database and server, all written by MLflow itself; and Trackio's database."""

from __future__ import annotations

import json
import math
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from import_writers import Content, Import, read_all

from context_store import Store
from contracts.enums import RunState, TimelineKind

_RUN_META = "run_id: {0}\nrun_name: run {0}\nstatus: {1}\nstart_time: 1700000000000\nend_time: 1700000900000\n"


def file_store(root: Path) -> Path:
    """One run that went on from step 300, and a deleted one."""
    experiment = root / "mlruns" / "1"
    for run, stage in (("aaa", "active"), ("bbb", "deleted")):
        for name in ("metrics/train", "metrics/eval", "params", "tags"):
            (experiment / run / name).mkdir(parents=True)
        (experiment / run / "meta.yaml").write_text(_RUN_META.format(run, 3) + f"lifecycle_stage: {stage}\n")
    (experiment / "meta.yaml").write_text("experiment_id: '1'\nname: My experiment\n")
    first = [(1_700_000_000_000 + s, s) for s in range(0, 351, 10)]
    again = [(1_700_000_500_000 + s, s) for s in range(300, 601, 10)]
    lines = "".join(f"{at} {5 - s / 100} {s}\n" for at, s in first + again)
    (experiment / "aaa" / "metrics" / "train" / "loss").write_text(lines)
    (experiment / "aaa" / "metrics" / "train" / "norm").write_text("1700000000001 nan 0\n1700000500301 -inf 300\nx\n")
    (experiment / "aaa" / "metrics" / "eval" / "loss").write_text("1700000000349 2.5 349\n1700000500340 2.4 349\n")
    (experiment / "aaa" / "params" / "lr").write_text("0.006")
    (experiment / "aaa" / "tags" / "mlflow.source.git.commit").write_text("c0ffee")
    (experiment / "aaa" / "tags" / "mlflow.note.content").write_text("a note")
    return root / "mlruns"


def test_the_file_store(tmp_path: Path) -> None:
    content = read_all(file_store(tmp_path))
    (run,) = content.runs
    first, again = run.parts
    assert (run.found.name, run.found.project) == ("run aaa", "My experiment")
    assert (first.found.start_step, again.found.start_step) == (0, 299)
    assert (len(first.series("train/loss")), len(again.series("train/loss"))) == (36, 31)
    assert math.isnan(first.series("train/norm")[0])
    assert again.series("train/norm") == {300: -math.inf}
    assert (first.series("eval/loss"), again.series("eval/loss")) == ({349: 2.5}, {349: 2.4})
    assert again.found.started_at == 1_700_000_500.3
    assert first.found.config == {"lr": 0.006}
    assert first.found.code_version == "c0ffee"
    assert again.ended is not None
    assert (again.ended.state, again.ended.at) == (RunState.COMPLETED, 1_700_000_900.0)
    assert run.facts[0].title == "a note"
    assert {problem.position for problem in content.problems} == {"line 3", "the run"}


def test_parameters_that_a_resume_changed_are_a_change_within_the_run(
    store: Store, tmp_path: Path, bring: Import
) -> None:
    """MLflow keeps one set of parameters a run; who looked before the resume knows the earlier ones. Shows R801-2.7."""
    folder = file_store(tmp_path)
    run = folder / "1" / "aaa"
    whole = (run / "metrics" / "train" / "loss").read_text()
    (run / "metrics" / "train" / "loss").write_text("".join(whole.splitlines(keepends=True)[:36]))
    for name in ("metrics/eval/loss", "metrics/train/norm"):
        (run / name).unlink()
    run_id = bring(folder, project="p").runs[0].run_id
    (run / "metrics" / "train" / "loss").write_text(whole)
    (run / "params" / "lr").write_text("0.003")
    (run / "params" / "clip").write_text("1.0")
    for _ in range(2):
        bring(folder, project="p")
        assert [store.runs.declared(run_id, number) for number in (0, 1)] == [{"lr": 0.006}, {"lr": 0.003, "clip": 1.0}]
        changes = [each for each in store.timeline.list(run_id) if each.kind == TimelineKind.CONFIG]
        assert {(each.step, each.title) for each in changes} == {(299, "lr 0.006 -> 0.003"), (299, "clip added: 1.0")}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import mlflow

    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    client = mlflow.MlflowClient(f"sqlite:///{path}")
    experiment = client.create_experiment("exp", artifact_location=str(path.parent / "artifacts"))
    run = client.create_run(experiment, start_time=1_700_000_000_000, run_name="base").info.run_id
    values = [math.nan, math.inf, -math.inf, 0.0, 1.5]
    for step, value in enumerate(values):
        client.log_metric(run, "train/loss", value, timestamp=1_700_000_000_000 + step, step=step)
    client.log_param(run, "width", 64)
    client.set_terminated(run, "FAILED", end_time=1_700_000_100_000)
    return path


def check_database_run(content: Content) -> None:
    (run,) = content.runs
    part = run.parts[0]
    loss = part.series("train/loss")
    assert math.isnan(loss[0])
    assert [loss[step] for step in (1, 2, 3, 4)] == [math.inf, -math.inf, 0.0, 1.5]
    assert part.found.config == {"width": 64}
    assert part.ended is not None
    assert (part.ended.state, part.ended.at) == (RunState.FAILED, 1_700_000_100.0)
    assert run.found.project == "exp"


def test_the_database(database: Path) -> None:
    content = read_all(database)
    check_database_run(content)
    assert content.problems == []


@pytest.fixture
def server(database: Path, tmp_path: Path) -> Iterator[str]:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", f"sqlite:///{database}", "--port"]
    options = ["--host", "127.0.0.1", "--workers", "1"]
    process = subprocess.Popen(
        [*command, str(port), *options], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env=os.environ | {"MLFLOW_DISABLE_TELEMETRY": "true"}, start_new_session=True,
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            try:
                if httpx.get(f"{url}/health", timeout=1.0).is_success:
                    break
            except httpx.HTTPError:
                time.sleep(0.2)
        yield url
    finally:
        os.killpg(process.pid, 15)
        process.wait()


@pytest.mark.slow
def test_the_server(server: str) -> None:
    content = read_all(server)  # type: ignore[arg-type]
    assert content.problems == []
    check_database_run(content)


def trackio_database(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TABLE metrics (id INTEGER PRIMARY KEY, run_id TEXT, timestamp TEXT, run_name TEXT, step INTEGER,"
            " metrics TEXT, log_id TEXT)"
        )
        connection.execute("CREATE TABLE configs (id INTEGER PRIMARY KEY, run_id TEXT, run_name TEXT, config TEXT)")
        for step, loss in enumerate([5.0, "NaN", "Infinity", 4.0]):
            row = ("r1", f"2026-01-01T00:00:0{step}", "run one", step, json.dumps({"train": {"loss": loss}, "t": "x"}))
            connection.execute(
                "INSERT INTO metrics (run_id, timestamp, run_name, step, metrics) VALUES (?,?,?,?,?)", row
            )
        config = json.dumps({"lr": 0.1, "_Created": "now"}).encode()
        connection.execute("INSERT INTO configs (run_id, run_name, config) VALUES ('r1', 'run one', ?)", (config,))
    connection.close()


def test_trackio(tmp_path: Path) -> None:
    trackio_database(tmp_path / "proj.db")
    (run,) = read_all(tmp_path / "proj.db").runs
    part = run.parts[0]
    assert (run.found.name, run.found.project) == ("run one", "proj")
    assert math.isnan(part.series("train/loss")[1])
    assert part.series("train/loss")[2] == math.inf
    assert part.found.config == {"lr": 0.1}
    assert part.found.started_at == 1_767_225_600.0


def test_trackio_as_parquet(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(
        {
            "run_name": ["a", "a", "b"],
            "step": [0, 1, 0],
            "timestamp": ["2026-01-01T00:00:00"] * 3,
            "loss": [1.0, math.nan, 3.0],
        }
    )
    pq.write_table(table, tmp_path / "proj.parquet")
    runs = read_all(tmp_path).runs
    assert [run.found.name for run in runs] == ["a", "b"]
    assert runs[1].parts[0].series("loss") == {0: 3.0}


def test_a_damaged_database_is_reported(tmp_path: Path) -> None:
    trackio_database(tmp_path / "proj.db")
    whole = bytearray((tmp_path / "proj.db").read_bytes())
    whole[4096:] = b"\xff" * (len(whole) - 4096)
    (tmp_path / "proj.db").write_bytes(whole)
    content = read_all(tmp_path / "proj.db")
    assert content.runs == []
    assert len(content.problems) == 1
