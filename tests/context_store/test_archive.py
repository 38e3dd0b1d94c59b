"""Backup and restore: equal by hash on another Postgres, whole or not at all, with errors a person can act on."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psycopg
import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from training_log import Training, make_run, steps

import context_store
from context_store import EmbeddedPostgres, Store, archive, open_store
from context_store.records import TimelineEvent
from contracts.enums import Role, TimelineKind
from contracts.errors import DatabaseVersionError, EnvironmentFault, LogFormatError, UserInputError
from contracts.events import Finished, Metrics


def quiet(stage: str, done: int, total: int) -> None:
    assert done <= total or not total


@pytest.fixture
def other_server() -> Iterator[str]:
    """Another Postgres, with nothing in it."""
    folder = Path(tempfile.mkdtemp(prefix="lt"))
    server = EmbeddedPostgres(folder, durable=False)
    try:
        yield server.start()
    finally:
        server.stop()
        shutil.rmtree(folder)


@pytest.fixture
def filled(training: Training) -> Store:
    """Every tier and awkward values: NaN, infinities, text with tabs, newlines, backslashes and quotes."""
    training.log(*steps(1, 3000))
    for step, value in enumerate([math.nan, math.inf, -math.inf, -0.0, 5e-324, 0.1 + 0.2], start=1):
        training.log(Metrics(step=step, values={"odd/layers.1": value, "hot": value}))
    training.ship()
    make_run(training.store, "run-2", parent_run_id="run-1", parent_step=10)
    training.store.timeline.add(
        TimelineEvent(run_id="run-1", segment=0, step=1, kind=TimelineKind.NOTE, title="a\tb\n\\. 'q' \\N ü €", at=1.5)
    )
    return training.store


def restored_points(url: str, name: str) -> list[tuple[int, float]]:
    with open_store(url) as store:
        data = store.series.read("run-1", name)
        return list(zip(data.steps.tolist(), data.values.tolist(), strict=True))


def test_a_restored_store_is_equal_by_hash_on_another_postgres(
    filled: Store, other_server: str, tmp_path: Path
) -> None:
    made = archive.backup(filled.url, tmp_path / "backup", now=5.0, tell=quiet)
    assert sorted(path.name for path in (tmp_path / "backup").iterdir()) == ["lathe.sql.zst", "manifest.json"]
    assert archive.restore(other_server, tmp_path / "backup", tell=quiet) == made
    again = archive.backup(other_server, tmp_path / "again", now=6.0, tell=quiet)
    assert again.content_sha256 == made.content_sha256
    assert again.tables == made.tables
    assert made.tables["public.run"].rows == 2
    with open_store(other_server) as store:
        found = store.series.read("run-1", "odd/layers.1").values
        assert found.tobytes() == filled.series.read("run-1", "odd/layers.1").values.tobytes()
        assert len(store.series.read("run-1", "loss").steps) == 3000
        assert store.timeline.list("run-1") == filled.timeline.list("run-1")
        make_run(store, "after")  # sequences go on behind what is there
        store.timeline.add(TimelineEvent(run_id="after", segment=0, step=1, kind=TimelineKind.NOTE, title="new"))
        store.tokens.create("x", Role.VIEWER)


def test_the_hash_sees_every_change_and_no_rearrangement(filled: Store, tmp_path: Path) -> None:
    def content(name: str) -> str:
        return archive.backup(filled.url, tmp_path / name, now=1.0, tell=quiet).content_sha256

    before = content("before")
    with psycopg.connect(filled.url, autocommit=True) as connection:
        connection.execute("UPDATE frame SET step = step")
        connection.execute("VACUUM FULL frame")
        assert content("rearranged") == before
        connection.execute("UPDATE run SET message = 'x' WHERE id = 'run-2'")
    assert content("changed") != before


def test_a_backup_is_of_one_moment_while_others_write(training: Training, other_server: str, tmp_path: Path) -> None:
    """A writer goes on between hash and dump; the restored hash still agrees."""
    training.log(*steps(1, 100))
    training.ship()

    def write(stage: str, done: int, total: int) -> None:
        if stage == "reading":
            training.log(Metrics(step=1000 + done, values={"late": 1.0}))
            training.ship()

    made = archive.backup(training.store.url, tmp_path / "backup", now=1.0, tell=write)
    assert archive.restore(other_server, tmp_path / "backup", tell=quiet).content_sha256 == made.content_sha256
    assert len(training.store.series.read("run-1", "late").steps) > len(restored_points(other_server, "late"))


def test_what_is_there_is_never_overwritten(filled: Store, new_database_url: Callable[[], str], tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(UserInputError, match="is there already"):
        archive.backup(filled.url, tmp_path / "taken", now=1.0, tell=quiet)
    archive.backup(filled.url, tmp_path / "backup", now=1.0, tell=quiet)
    with pytest.raises(UserInputError, match="not empty") as caught:
        archive.restore(new_database_url(), tmp_path / "backup", tell=quiet)
    assert "LATHE_HOME" in caught.value.remedy


def test_damage_and_other_versions_are_found_before_anything_is_restored(
    filled: Store, other_server: str, tmp_path: Path
) -> None:
    folder = tmp_path / "backup"
    archive.backup(filled.url, folder, now=1.0, tell=quiet)
    data, manifest = folder / archive.DATA, folder / archive.MANIFEST
    sound, told = data.read_bytes(), json.loads(manifest.read_text())

    data.write_bytes(sound[:-100])
    with pytest.raises(LogFormatError, match="is damaged"):
        archive.restore(other_server, folder, tell=quiet)
    data.write_bytes(sound)
    manifest.write_text(json.dumps(told | {"schema": "9999"}))
    with pytest.raises(DatabaseVersionError, match="schema 9999"):
        archive.restore(other_server, folder, tell=quiet)
    manifest.write_text("{}")
    with pytest.raises(UserInputError, match="no backup of Lathe"):
        archive.restore(other_server, folder, tell=quiet)
    told["tables"]["public.run"]["rows"] += 1
    manifest.write_text(json.dumps(told))
    with pytest.raises(EnvironmentFault, match=r"differs from the backup in: public\.run"):
        archive.restore(other_server, folder, tell=quiet)


def test_an_interrupted_backup_or_restore_leaves_nothing(filled: Store, other_server: str, tmp_path: Path) -> None:
    def interrupt(at: str) -> Callable[[str, int, int], None]:
        def tell(stage: str, done: int, total: int) -> None:
            if stage == at:
                raise KeyboardInterrupt

        return tell

    for stage in ("reading", "writing"):
        with pytest.raises(KeyboardInterrupt):
            archive.backup(filled.url, tmp_path / "backup", now=1.0, tell=interrupt(stage))
        assert list(tmp_path.glob("*backup*")) == []
    archive.backup(filled.url, tmp_path / "backup", now=1.0, tell=quiet)
    for stage in ("verifying", "restoring"):
        with pytest.raises(KeyboardInterrupt):
            archive.restore(other_server, tmp_path / "backup", tell=interrupt(stage))
    archive.restore(other_server, tmp_path / "backup", tell=quiet)


def test_a_backup_of_an_earlier_version_is_brought_up_to_this_one(
    postgres_url: str, other_server: str, tmp_path: Path
) -> None:
    """Made by the first migration alone, with a run in it."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE of_version_1")
    url = postgres_url.replace("/lathe?", "/of_version_1?")
    engine = sa.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(url))
    config = Config()
    config.set_main_option("script_location", str(Path(context_store.__file__).parent / "migrations"))
    with engine.begin() as opened:
        config.attributes["connection"] = opened
        command.upgrade(config, "0001")
        opened.execute(sa.text("INSERT INTO project VALUES ('p', '/p', 'recipe:recipe', 'embedded')"))
    engine.dispose()
    assert archive.backup(url, tmp_path / "backup", now=1.0, tell=quiet).schema == "0001"
    archive.restore(other_server, tmp_path / "backup", tell=quiet)
    with open_store(other_server) as store:
        assert [project.id for project in store.projects.list()] == ["p"]


def test_a_server_that_refuses_is_told(filled: Store, tmp_path: Path) -> None:
    archive.backup(filled.url, tmp_path / "backup", now=1.0, tell=quiet)
    with psycopg.connect(filled.url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE read_only")
        connection.execute("ALTER DATABASE read_only SET default_transaction_read_only = on")
    url = filled.url.replace(filled.url.rpartition("/")[2].partition("?")[0], "read_only")
    with pytest.raises(EnvironmentFault, match=r"psql failed: .*read-only transaction"):
        archive.restore(url, tmp_path / "backup", tell=quiet)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs the right to make a small disk")
def test_a_full_disk_is_told_and_leaves_nothing(filled: Store, tmp_path: Path) -> None:
    """On a real small disk, in a mount namespace of its own."""
    small = tmp_path / "small"
    small.mkdir()
    code = f"""
import os
from pathlib import Path
from context_store import archive
try:
    archive.backup({filled.url!r}, Path({str(small)!r}) / "backup", now=1.0, tell=lambda *a: None)
except OSError as error:
    print(error.errno, os.listdir({str(small)!r}))
"""
    mount = f"mount -t tmpfs -o size=8k none {small} && exec {sys.executable} -c '{code.replace(chr(39), chr(34))}'"
    done = subprocess.run(["unshare", "-m", "sh", "-c", mount], capture_output=True, text=True, check=False)
    if done.returncode != 0 and "unshare" in done.stderr:
        pytest.skip("no mount namespaces here")
    assert done.stdout == "28 []\n", done.stderr


@pytest.mark.slow
def test_memory_is_bounded(training: Training, tmp_path: Path) -> None:
    """A store of 40 MB is backed up with less than that much more memory than an empty one."""
    generator = np.random.default_rng(1)
    for batch in range(20):
        values = generator.standard_normal((250, 1000)).cumsum(axis=0)
        names = [f"s/layers.{n}" for n in range(1000)]
        rows = [dict(zip(names, row.tolist(), strict=True)) for row in values]
        training.log(*(Metrics(step=batch * 250 + i, values=row) for i, row in enumerate(rows, start=1)))
    training.log(Finished(step=5000, reason="completed"))
    training.ship()
    code = (
        "import resource, sys; from pathlib import Path; from context_store import archive\n"
        "peak_kb = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; before = peak_kb()\n"
        f"target, url = Path({str(tmp_path / 'backup')!r}), {training.store.url!r}\n"
        "made = archive.backup(url, target, now=1.0, tell=lambda *_: None)\n"
        "print(made.data_bytes, (peak_kb() - before) * 1024)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    data_bytes, grown_bytes = map(int, done.stdout.split())
    assert data_bytes > 30e6
    assert grown_bytes < 25e6
