"""`lathe up` and `lathe down`: real processes, on loopback, that come back after anything."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from context_store import EmbeddedPostgres
from contracts.errors import PortInUse
from control_plane.services import cluster
from control_plane.services.ports import choose_port
from control_plane.services.processes import Services
from control_plane.settings import Settings

LOOPBACK = {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


def ours(home: Path) -> list[psutil.Process]:
    """Processes that were started for this home."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("LATHE_HOME") == str(home):
                found.append(process)
        except (psutil.AccessDenied, psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
    return found


@pytest.fixture
def running() -> Iterator[Settings]:
    """Settings of a home with its own embedded database; everything is stopped afterwards.

    Not below pytest's folder: as root the database runs as another user, and every pytest shuts that folder.
    """
    settings = Settings(home=Path(tempfile.mkdtemp(prefix="lt")), backend="local", num_cpus=1)
    yield settings
    cluster.down(settings)
    assert ours(settings.home) == []
    shutil.rmtree(settings.home)


def test_up_listens_on_loopback_survives_a_kill_and_down_leaves_nothing(running: Settings) -> None:
    addresses = cluster.up(running, lambda _: None)
    assert httpx.get(addresses.url).status_code == 200
    headers = {"Authorization": f"Bearer {addresses.token}"}
    assert httpx.get(f"{addresses.api_url}/api/v1/health", headers=headers).status_code == 200
    listening = [
        each
        for process in ours(running.home)
        for each in process.net_connections()
        if each.status == psutil.CONN_LISTEN
    ]
    assert len(listening) == 2, "the API and the page, nothing else"
    assert {each.laddr.ip for each in listening} <= LOOPBACK
    assert (running.services_folder / "token").stat().st_mode & 0o077 == 0

    before = cluster.status(running)
    assert before["api"] is not None
    os.kill(before["api"].pid, signal.SIGKILL)
    again = cluster.up(running, lambda _: None)
    assert again.token == addresses.token
    assert httpx.get(f"{again.api_url}/api/v1/health", headers=headers).status_code == 200
    after = cluster.status(running)
    assert after["worker"] == before["worker"], "what runs is left alone"

    assert set(cluster.down(running)) == {"ui", "worker", "api", "database"}
    assert not EmbeddedPostgres(running.postgres_folder).running()
    assert cluster.down(running) == ()


def test_a_port_that_is_taken_is_named_with_its_variable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(PortInUse) as caught:
        choose_port(other.getsockname()[1], what="API", variable="LATHE_API_PORT")
    assert "LATHE_API_PORT" in caught.value.remedy


def test_a_stale_file_never_stops_somebody_else(tmp_path: Path) -> None:
    """After a reboot the number belongs to another process: here to this test."""
    services = Services(tmp_path)
    stale = {"name": "api", "pid": os.getpid(), "started_at": 1.0, "port": 1}
    (tmp_path / "api.json").write_text(json.dumps(stale))
    assert services.running("api") is None
    assert services.stop("api") is False
    (tmp_path / "api.json").write_text("half a f")
    assert services.running("api") is None
