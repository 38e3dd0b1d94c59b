"""The embedded server: starts, is shared, survives kills and stale files, and says what is wrong."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path

import psutil
import psycopg
import pytest

from context_store import EmbeddedPostgres, postmaster
from contracts.errors import DatabaseUnavailable, DatabaseVersionError

NOBODY = 65534
REPOSITORY = Path(__file__).parents[2]
START = "import sys; from pathlib import Path; from context_store import EmbeddedPostgres\n"
START += "print(EmbeddedPostgres(Path(sys.argv[1]), durable=False).start(), flush=True)\n"


@pytest.fixture(scope="module")
def pristine() -> Iterator[Path]:
    """A folder with an initialised, stopped server, to be copied."""
    with tempfile.TemporaryDirectory(prefix="lt", dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        server = EmbeddedPostgres(Path(folder), durable=False)
        server.start()
        server.stop()
        yield Path(folder)


@pytest.fixture
def server(pristine: Path, short_folder: Path) -> Iterator[EmbeddedPostgres]:
    """A server of its own, not running yet."""
    subprocess.run(["cp", "-a", f"{pristine}/.", str(short_folder)], check=True)
    server = EmbeddedPostgres(short_folder, durable=False)
    yield server
    server.stop()


def answer(url: str, query: str = "SELECT 1") -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return row[0]


def pid_of(server: EmbeddedPostgres) -> int:
    found = postmaster.find(server.folder / "data")
    assert found is not None
    return found.pid


def test_start_is_idempotent_and_stop_ends_it(server: EmbeddedPostgres) -> None:
    assert not server.running()
    url = server.start()
    first = pid_of(server)
    assert server.start() == url
    assert pid_of(server) == first
    assert server.running()
    assert answer(url, "SELECT current_database()") == "lathe"
    server.stop()
    assert not server.running()
    assert not Path(str(psycopg.conninfo.conninfo_to_dict(url)["host"])).exists()
    server.stop()


def test_it_listens_on_a_private_unix_socket_only(server: EmbeddedPostgres) -> None:
    url = server.start()
    process = psutil.Process(pid_of(server))
    sockets = process.net_connections(kind="all")
    assert all(one.family == socket.AF_UNIX for one in sockets)
    folder = Path(str(psycopg.conninfo.conninfo_to_dict(url)["host"]))
    assert folder.stat().st_mode & 0o077 == 0


def test_the_length_of_the_folder_does_not_matter(pristine: Path, short_folder: Path) -> None:
    long = short_folder / ("deep " * 20 + "ünï") / ("x" * 100)
    long.parent.mkdir(parents=True)
    subprocess.run(["cp", "-a", str(pristine), str(long)], check=True)
    server = EmbeddedPostgres(long, durable=False)
    try:
        assert answer(server.start()) == 1
    finally:
        server.stop()


@pytest.mark.parametrize("victim", ["postmaster", "backend"])
def test_committed_rows_survive_kill_9(server: EmbeddedPostgres, victim: str) -> None:
    url = server.start()
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE kept (n int)")
        connection.execute("INSERT INTO kept VALUES (7)")
        connection.commit()
        backend = connection.info.backend_pid
        os.kill(pid_of(server) if victim == "postmaster" else backend, signal.SIGKILL)
        if victim == "backend":  # the server restarts itself; start() waits for it
            psutil.wait_procs([psutil.Process(backend)] if psutil.pid_exists(backend) else [], timeout=10)
    assert answer(server.start(), "SELECT n FROM kept") == 7


def test_stale_files_that_name_a_living_stranger_do_not_matter(server: EmbeddedPostgres) -> None:
    """After a reboot the number in postmaster.pid may be any process."""
    host = Path(str(psycopg.conninfo.conninfo_to_dict(server.start())["host"]))
    killed = psutil.Process(pid_of(server))
    killed.kill()
    killed.wait()
    with subprocess.Popen(["sleep", "60"]) as stranger:
        try:
            for stale in (server.folder / "data" / "postmaster.pid", host / ".s.PGSQL.5432.lock"):
                _, *rest = stale.read_text().splitlines()
                stale.write_text("\n".join([str(stranger.pid), *rest]) + "\n")
            assert not server.running()
            assert answer(server.start()) == 1
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_a_swept_away_socket_folder_comes_back(server: EmbeddedPostgres) -> None:
    url = server.start()
    shutil.rmtree(str(psycopg.conninfo.conninfo_to_dict(url)["host"]))
    assert not server.running()
    assert answer(server.start()) == 1


def test_a_server_without_a_free_connection_is_busy_and_is_left_alone(server: EmbeddedPostgres) -> None:
    url = server.start()
    first = pid_of(server)
    with ExitStack() as held:
        for _ in range(100):
            held.enter_context(psycopg.connect(url))
        with pytest.raises(DatabaseUnavailable, match="too many clients"):
            server.start()
    assert answer(server.start()) == 1
    assert pid_of(server) == first


def test_an_interrupted_first_start_leaves_nothing_half_done(short_folder: Path) -> None:
    (short_folder / "data.new").mkdir()
    (short_folder / "data.new" / "PG_VERSION").write_text("18\n")
    server = EmbeddedPostgres(short_folder, durable=False)
    try:
        assert answer(server.start()) == 1
    finally:
        server.stop()


def test_processes_share_one_server_and_outlive_each_other(server: EmbeddedPostgres) -> None:
    command = [sys.executable, "-c", START, str(server.folder)]
    starters = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) for _ in range(2)]
    urls = {starter.communicate()[0].strip() for starter in starters}
    assert all(starter.returncode == 0 for starter in starters)
    assert urls == {server.start()}
    assert answer(server.start()) == 1, "the server stayed when the processes that started it ended"


def test_a_folder_of_another_postgres_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "PG_VERSION").write_text("16\n")
    with pytest.raises(DatabaseVersionError, match="made by Postgres 16") as caught:
        EmbeddedPostgres(tmp_path).start()
    assert "LATHE_HOME" in caught.value.remedy


def test_an_unusable_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DatabaseUnavailable, match="file") as caught:
        EmbeddedPostgres(tmp_path / "file").start()
    assert caught.value.remedy


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_it_also_works_as_an_ordinary_user(server: EmbeddedPostgres, short_folder: Path) -> None:
    for path in (short_folder, *short_folder.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    reader, writer = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=start_as_nobody, args=[server, writer])
    child.start()
    child.join()
    assert reader.poll()
    assert reader.recv() == [1, NOBODY]


def start_as_nobody(server: EmbeddedPostgres, result: Connection) -> None:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    url = server.start()
    result.send([answer(url), psutil.Process(pid_of(server)).uids().real])
    server.stop()
