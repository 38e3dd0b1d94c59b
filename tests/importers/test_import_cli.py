"""`lathe ingest`: one command, the real store, answers for people and programs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from context_store import open_store
from contracts.enums import RunState

Command = Callable[..., tuple[int, str, str]]
ROOT = Path(__file__).parents[2]


def log(steps: range) -> str:
    return "".join(f"step:{s}/1000 train_loss:{9 - s / 1000:.4f} train_time:{s}ms step_avg:1.0ms\n" for s in steps)


@pytest.fixture
def environment(database_url: str, short_folder: Path) -> dict[str, str]:
    return {"LATHE_HOME": str(short_folder), "LATHE_DATABASE_URL": database_url, "LATHE_BACKEND": "local"}


@pytest.fixture
def command(environment: dict[str, str], run_lathe: Command) -> Command:
    return partial(run_lathe, environment, "ingest")


def test_a_dry_run_stores_nothing(command: Command, database_url: str, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(log(range(1, 51)))
    status, out, _ = command(tmp_path, "--dry-run", "--json")
    (source,) = json.loads(out)["sources"]
    assert (status, source["format"], source["runs"][0]["num_points"]) == (0, "text log", 150)
    assert source["runs"][0]["num_new"] is None
    with open_store(database_url) as store:
        assert store.runs.list() == []


def test_an_import_tells_what_it_did(command: Command, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(log(range(1, 51)))
    (tmp_path / "m.jsonl").write_text('{"step": 1, "loss": 2}\n{"step": 2, "l\n')
    (tmp_path / "model.pt").write_bytes(b"PK\x03\x04")
    status, out, err = command(tmp_path, "--project", "team")
    assert status == 0
    assert "lathe detect a-" in out
    assert "m.jsonl, line 2" in err
    assert "model.pt: weights or a pickle, no log" in err
    status, out, _ = command(tmp_path, "--project", "team", "--json")
    runs = [run for source in json.loads(out)["sources"] for run in source["runs"]]
    assert {run["project_id"] for run in runs} == {"team"}
    assert {run["num_new"] for run in runs} == {0}


def test_an_import_of_lessons_says_what_it_stored(command: Command, tmp_path: Path) -> None:
    lesson: dict[str, object] = {"id": "x-1", "symptom": "slow", "proven_cause": "one GPU", "cause_kind": "hardware"}
    lesson["negative_results"] = [{"tried": "bandwidth test", "why_it_failed": "all equal"}]
    (tmp_path / "incidents.jsonl").write_text(json.dumps(lesson) + "\n")
    status, out, _ = command(tmp_path / "incidents.jsonl")
    assert status == 0
    assert "1 negative results: lathe negatives search" in out
    assert "lathe detect" not in out, "there is no training in it"


@pytest.mark.parametrize(
    ("name", "content", "reason", "remedy"),
    [
        ("notes.md", "# notes\n", "prose", "log of the training"),
        ("model.safetensors", "abc", "weights", "pickles are never opened"),
        ("table.csv", "a,b\n1,2\n", "known as the step", "--step NAME"),
        ("log.txt", "hello\nworld\n", "looks like a training step", "JSON lines"),
        ("data.json", '{"a": 1}', "known layout", "JSON lines"),
        ("logs.gz", "abc", "compressed", "unpack"),
        ("empty.log", "", "empty", "permissions"),
    ],
)
def test_what_is_no_training_data_is_refused_with_reason_and_remedy(
    command: Command, tmp_path: Path, name: str, content: str, reason: str, remedy: str
) -> None:
    (tmp_path / name).write_text(content)
    status, _, err = command(tmp_path / name)
    assert status == 2
    assert reason in err
    assert remedy in err


def test_a_server_that_does_not_answer_is_no_success(command: Command) -> None:
    for more in ((), ("--dry-run",)):
        status, out, err = command("http://127.0.0.1:1/", *more)
        assert status == 3
        assert "No run in it" not in out
        assert "http://127.0.0.1:1 does not answer" in err
        assert "remedy:" in err


def test_a_start_that_does_not_fit_is_no_success(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text(log(range(1, 51)))
    assert command(path)[0] == 0
    path.write_text(log(range(3, 51)))
    for more in (("--dry-run",), ()):
        status, _, err = command(path, *more)
        assert status == 2
        assert "is not start 1 of the run" in err
        assert "1 of 1 runs were refused" in err


def test_the_table_is_readable_at_80_columns(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    path = tmp_path / f"a-{'long-' * 8}name.jsonl"
    path.write_text('{"step": 123456789, "loss": 2}\n{"step": 123456999, "loss": 2}\n')
    for more in (("--dry-run",), ()):
        _, out, _ = command(path, "--project", "a-project-of-a-team", *more)
        assert "project a-project-of-a-team" in out
        assert max(map(len, out.splitlines())) <= 80
        header, row = (line.split() for line in out.splitlines()[1:3])
        assert header == ["run", "starts", "steps", "points", *([] if more else ["new"]), "ended"]
        assert row[1:] == ["1", "123456789-123456999", "2", *([] if more else ["2"]), "?"]


def test_mistakes_are_explained(command: Command, tmp_path: Path) -> None:
    for arguments in ((tmp_path / "nothing",), ("ftp://x/y",), (tmp_path, "--dry-run", "--follow"), (tmp_path,)):
        status, _, err = command(*arguments)
        assert status == 2
        assert "remedy:" in err


def test_declared_columns(command: Command, tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("u,a,b\n1,5,7\n2,4,8\n")
    _, out, _ = command(tmp_path / "m.csv", "--step", "u", "--column", "a=loss", "--json")
    assert json.loads(out)["sources"][0]["runs"][0]["series"] == ["loss"]


def test_following_a_log_that_grows(environment: dict[str, str], database_url: str, tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text(log(range(1, 51)) + "step:51/1000 train_lo")
    arguments = [sys.executable, "-m", "control_plane.cli.main", "ingest", str(path), "--follow", "--json"]
    process = subprocess.Popen(arguments, cwd=ROOT, env=os.environ | environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        first = json.loads(process.stdout.readline())["sources"][0]["runs"][0]
        with path.open("a") as file:
            file.write(log(range(51, 61)).removeprefix("step:51/1000 train_lo"))
        second = json.loads(process.stdout.readline())["sources"][0]["runs"][0]
        with open_store(database_url) as store:
            assert store.runs.get(first["run_id"]).state == RunState.RUNNING
            process.send_signal(signal.SIGINT)
            process.wait(timeout=60)
            assert store.runs.get(first["run_id"]).state == RunState.STOPPED
            assert store.series.read(first["run_id"], "loss").steps.tolist() == list(range(1, 61))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert (first["num_new"], second["num_new"]) == (150, 30)


def test_a_file_that_vanishes_while_it_is_followed_is_no_traceback(tmp_path: Path) -> None:
    from context_store.importers import discover, fingerprint

    path = tmp_path / "a.log"
    path.write_text(log(range(1, 9)))
    (found,) = discover(str(path))[0]
    before = fingerprint(found)
    time.sleep(0.01)
    path.write_text(log(range(1, 10)))
    assert fingerprint(found) != before
    path.unlink()
    assert fingerprint(found) == ()
