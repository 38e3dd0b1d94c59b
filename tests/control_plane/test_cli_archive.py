"""`lathe backup`, `restore`, `export` between two homes of their own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from small_project import SmallProject, until

from context_store import EmbeddedPostgres
from control_plane.projects import register_project
from control_plane.settings import Settings
from control_plane.trainings import TrainingRequest, follow
from control_plane.wiring import Lathe

Command = Callable[..., tuple[object, str, str]]


@pytest.fixture
def home() -> Iterator[Path]:
    """A home whose embedded Postgres does not exist yet. Not below pytest's folder, which other users may not enter."""
    folder = Path(tempfile.mkdtemp(prefix="lt"))
    yield folder / "home"
    EmbeddedPostgres(folder / "home" / "postgres").stop()
    shutil.rmtree(folder)


@pytest.fixture
def command(run_lathe: Command) -> Command:
    return lambda settings, *arguments: run_lathe(settings.as_environment(), *arguments)


def test_a_store_moves_to_another_home_and_out_of_lathe(
    settings: Settings, lathe: Lathe, small_project: SmallProject, home: Path, tmp_path: Path, command: Command
) -> None:
    """Shows R801-2.1: what was stored is the same, by hash, on another Postgres, and readable without Lathe."""
    project = register_project(lathe.store, small_project.folder)
    wish = TrainingRequest(run_id="rr-1", project=project, commit=small_project.good, max_step=30)
    follow(lathe.backend, lathe.shipper, lathe.trainings.begin(wish))
    status, out, err = command(settings, "backup", tmp_path / "backup", "--json")
    assert status == 0, err
    told = json.loads(out)
    elsewhere = settings.model_copy(update={"home": home, "database_url": ""})
    status, out, err = command(elsewhere, "restore", tmp_path / "backup", "--json")
    assert status == 0, err
    assert json.loads(out)["content_sha256"] == told["content_sha256"]
    _, out, err = command(elsewhere, "backup", tmp_path / "again")
    assert out.strip() == told["content_sha256"]
    assert "checkpoints and run folders are not part of a backup" in err
    status, out, err = command(elsewhere, "export", tmp_path / "export")
    assert status == 0, err
    assert "rr-1" in Path(out.strip()).read_text()


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["restore", "{backup}"], 2, "not empty"),
        (["restore", "{nothing}"], 2, "no backup of Lathe"),
        (["backup", "{backup}"], 2, "is there already"),
        (["export", "{backup}"], 2, "is there already"),
        (["backup", "/proc/nothing/backup"], 3, "/proc/nothing"),
    ],
)
def test_a_mistake_is_one_message_with_its_remedy(
    settings: Settings, lathe: Lathe, tmp_path: Path, command: Command, arguments: list[str], status: int, words: str
) -> None:
    places = {"backup": tmp_path / "backup", "nothing": tmp_path / "nothing"}
    assert command(settings, "backup", places["backup"])[0] == 0
    done, _, said = command(settings, *(argument.format(**places) for argument in arguments))
    assert (done, words in said, "remedy:" in said, "Traceback" in said) == (status, True, True, False), said


def test_ctrl_c_ends_a_backup_and_leaves_nothing(settings: Settings, lathe: Lathe, tmp_path: Path) -> None:
    """While it waits for a table that somebody else keeps locked."""
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code += "from control_plane.cli.main import main; main()"
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'ledger_entry'::regclass"
    with psycopg.connect(lathe.store.url) as other, psycopg.connect(lathe.store.url, autocommit=True) as watch:
        other.execute("LOCK TABLE ledger_entry IN ACCESS EXCLUSIVE MODE")
        running = subprocess.Popen(
            [sys.executable, "-c", code, "backup", str(tmp_path / "backup")],
            env=os.environ | settings.as_environment(),
            stderr=subprocess.PIPE,
            text=True,
        )
        until(lambda: bool((watch.execute(waiting).fetchone() or (0,))[0]), timeout_s=30)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=30)
    assert (running.returncode, "Traceback" in said) == (130, False), said
    assert list(tmp_path.glob("*backup*")) == []
