"""Start and stop all services of one LATHE_HOME."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

from context_store import EmbeddedPostgres
from contracts.enums import Role
from control_plane.services.ports import LOOPBACK, choose_port
from control_plane.services.processes import Service, Services
from control_plane.settings import Settings
from control_plane.wiring import Lathe, prepare_home

API, WORKER, UI = "api", "worker", "ui"
_READY_S = 60.0
_UI_APP = Path(__file__).resolve().parents[2] / "ui" / "app.py"


@dataclass(frozen=True, kw_only=True)
class Addresses:
    """Where a person and a program find Lathe."""

    url: str  # of the page, with the token: one click signs in
    api_url: str
    token: str


def up(settings: Settings, tell: Callable[[str], None], *, with_worker: bool = True, with_ui: bool = True) -> Addresses:
    """Start what does not run yet; returns once everything answers. Raises PortInUse, EnvironmentFault."""
    prepare_home(settings.home)
    services = Services(settings.services_folder)
    with _starting(settings.services_folder):
        tell("database")
        with Lathe.open(settings) as lathe:
            token = _token(lathe)
            tell("API")
            api = _start_api(services, settings, token)
            if with_worker:
                tell("worker")
                services.start(
                    WORKER, [sys.executable, "-m", "control_plane.services.worker"], settings.as_environment()
                )
            api_url = f"http://{LOOPBACK}:{api.port}"
            page = api_url
            if with_ui:
                tell("page")
                page = f"http://{LOOPBACK}:{_start_ui(services, settings, api_url).port}"
    return Addresses(url=f"{page}/?token={token}", api_url=api_url, token=token)


def down(settings: Settings) -> tuple[str, ...]:
    """Stop what runs, the embedded database too unless somebody else uses it; returns the names of what was stopped."""
    services = Services(settings.services_folder)
    if not settings.home.is_dir():
        return ()
    with _starting(settings.services_folder):
        stopped = [name for name in (UI, WORKER, API) if services.stop(name)]
        if _stop_unused_database(settings):
            stopped.append("database")
    return tuple(stopped)


def status(settings: Settings) -> dict[str, Service | None]:
    """The live processes."""
    services = Services(settings.services_folder)
    return {name: services.running(name) for name in (API, WORKER, UI)}


@contextmanager
def _starting(folder: Path) -> Iterator[None]:
    """One `up` or `down` at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _start_api(services: Services, settings: Settings, token: str) -> Service:
    api = services.running(API)
    if api is None:
        port = choose_port(settings.api_port, what="API", variable="LATHE_API_PORT")
        command = [sys.executable, "-m", "control_plane.services.api", str(port)]
        api = services.start(API, command, settings.as_environment(), port=port)
    health = f"http://{LOOPBACK}:{api.port}/api/v1/health"
    services.wait_until(api, lambda: _answers(health, token), _READY_S)
    return api


def _start_ui(services: Services, settings: Settings, api_url: str) -> Service:
    ui = services.running(UI)
    if ui is None:
        port = choose_port(settings.ui_port, what="page", variable="LATHE_UI_PORT")
        options = {"server.address": LOOPBACK, "server.port": str(port), "server.headless": "true"}
        options |= {"browser.gatherUsageStats": "false", "server.fileWatcherType": "none"}
        command = [sys.executable, "-m", "streamlit", "run", str(_UI_APP)]
        command += [part for name, value in options.items() for part in (f"--{name}", value)]
        ui = services.start(UI, command, _ui_environment(settings, api_url), port=port)
    services.wait_until(ui, lambda: _answers(f"http://{LOOPBACK}:{ui.port}/_stcore/health", ""), _READY_S)
    return ui


def _ui_environment(settings: Settings, api_url: str) -> dict[str, str]:
    """The page reaches Lathe by HTTP only, so it gets no database credentials."""
    return {**settings.as_environment(), "LATHE_API_URL": api_url, "LATHE_DATABASE_URL": ""}


def _token(lathe: Lathe) -> str:
    """The token of whoever may read its file (mode 600); a new one when the database does not know it."""
    path = lathe.settings.services_folder / "token"
    kept = path.read_text() if path.exists() else ""
    if kept and lathe.store.tokens.check(kept):
        return kept
    secret = lathe.store.tokens.create(lathe.settings.actor, Role.ADMIN)
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secret)
    return secret


def _answers(url: str, token: str) -> bool:
    request = Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})  # noqa: S310 (our own loopback)
    try:
        with urlopen(request, timeout=5) as response:  # noqa: S310
            return bool(response.status == 200)
    except (URLError, OSError):
        return False


def _stop_unused_database(settings: Settings) -> bool:
    if settings.database_url or not settings.postgres_folder.exists():
        return False
    server = EmbeddedPostgres(settings.postgres_folder)
    with (settings.home / "postgres-users.lock").open("w") as users:
        try:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        was_running = server.running()
        server.stop()
        return was_running
