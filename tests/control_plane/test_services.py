"""`lathe up` and `lathe down`: real processes, on loopback, that come back after anything."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest
from small_project import until

from context_store import EmbeddedPostgres
from contracts.errors import PortInUse
from control_plane.services import cluster
from control_plane.services.ports import choose_port
from control_plane.services.processes import Service, Services
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
    listening = {
        each.laddr
        for process in ours(running.home)
        for each in process.net_connections()
        if each.status == psutil.CONN_LISTEN
    }
    assert len(listening) == 2, "the API (its keeper and the process that answers share a socket) and the page"
    assert {each.ip for each in listening} <= LOOPBACK
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


def child_of(service: Service) -> psutil.Process:
    """Waits for it: a keeper imports first."""
    until(lambda: child_pid(service) > 0, timeout_s=60)
    return psutil.Process(child_pid(service))


def test_what_is_killed_comes_back_by_itself_and_no_request_is_refused(running: Settings) -> None:
    """The process that works is forked again by its keeper; the keeper takes its child along."""
    addresses = cluster.up(running, lambda _: None, with_ui=False)
    headers = {"Authorization": f"Bearer {addresses.token}"}
    health = f"{addresses.api_url}/api/v1/health"
    services = cluster.status(running)
    api, worker = services["api"], services["worker"]
    assert api is not None
    assert worker is not None
    for _ in range(2):
        victim = child_of(api)
        victim.kill()
        victim.wait()
        assert httpx.get(health, headers=headers, timeout=30).status_code == 200, "it waited, and was answered"
        assert child_of(api).pid != victim.pid
    victim = child_of(worker)
    victim.kill()
    until(lambda: any(path.name.endswith(f"{child_pid(worker)}.alive") for path in workers(running)), timeout_s=30)
    assert cluster.status(running)["worker"] == worker
    children = psutil.Process(api.pid).children()
    assert children
    psutil.Process(api.pid).kill()
    until(lambda: not any(is_alive(child) for child in children), timeout_s=20)
    with pytest.raises(httpx.TransportError):
        httpx.get(health, headers=headers)


def is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def child_pid(service: Service) -> int:
    return next((each.pid for each in psutil.Process(service.pid).children()), -1)


def workers(settings: Settings) -> list[Path]:
    return list(settings.workers_folder.glob("*.alive"))


def test_a_service_that_cannot_start_says_so_at_once(tmp_path: Path) -> None:
    """It is not started again and again: what is wrong is in its log, and its status is an error."""
    code = "from control_plane.services.keeper import keep; keep(lambda: 1 / 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.count("ZeroDivisionError") == 1


def test_a_keeper_that_is_asked_to_end_ends_its_child_in_order(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    code = f"""
import signal, sys, time
from control_plane.services.keeper import keep
def end(*_):
    open({str(marks)!r}, "a").write("ended ")
    sys.exit(0)
def work():
    signal.signal(signal.SIGTERM, end)
    open({str(marks)!r}, "a").write("begun ")
    time.sleep(60)
keep(work)
"""
    process = subprocess.Popen([sys.executable, "-c", code])
    until(lambda: marks.exists() and marks.read_text() == "begun ", timeout_s=30)
    process.terminate()
    assert process.wait(timeout=20) == 0
    assert marks.read_text() == "begun ended "
