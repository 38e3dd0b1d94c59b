"""A Lathe of its own in a folder: database, tokens, and real processes that can be started, stopped and killed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

from context_store import EmbeddedPostgres, migrate, open_store
from contracts.enums import Role
from control_plane.services.ports import LOOPBACK, choose_port
from control_plane.settings import Settings

READY_S = 60.0
ROOT = Path(__file__).absolute().parents[1]
CLIENT = ROOT / "clients" / "lathe_log"


@dataclass(kw_only=True)
class Place:
    """A LATHE_HOME with a running database. `secrets`: one token for each role."""

    home: Path
    server: EmbeddedPostgres
    url: str
    settings: Settings
    secrets: dict[Role, str] = field(default_factory=dict)
    port: int = 0

    def python(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        """`python ARGUMENTS` in the background with this home's settings; what it says goes to `logs/NAME.log`."""
        logs = self.home / "logs"
        logs.mkdir(exist_ok=True)
        environment = {**os.environ, **self.settings.as_environment(), "PYTHONPATH": f"{ROOT}:{CLIENT}"}
        with (logs / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, *arguments], env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def start_api(self) -> subprocess.Popen[bytes]:
        """On the same port every time; it may not answer yet."""
        self.port = self.port or choose_port(0, what="API", variable="LATHE_API_PORT")
        return self.python("api", "-m", "control_plane.services.api", str(self.port))

    def start_worker(self) -> subprocess.Popen[bytes]:
        return self.python("worker", "-m", "control_plane.services.worker")

    @property
    def api(self) -> str:
        return f"http://{LOOPBACK}:{self.port}/api/v1"

    def answers(self) -> bool:
        """Does the API answer a request that reads the database?"""
        headers = {"Authorization": f"Bearer {self.secrets[Role.VIEWER]}"}
        try:
            with urlopen(Request(f"{self.api}/runs", headers=headers), timeout=5) as answer:  # noqa: S310 (loopback)
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False

    def wait_for_api(self) -> None:
        """Raises TimeoutError."""
        deadline = time.monotonic() + READY_S
        while not self.answers():
            if time.monotonic() > deadline:
                raise TimeoutError(f"the API did not answer: {self.home / 'logs' / 'api.log'}")
            time.sleep(0.02)


@contextmanager
def place(folder: Path, *, durable: bool = True, **settings: object) -> Iterator[Place]:
    """A fresh or found home in `folder`; its database stops at the end."""
    home = folder / "home"
    home.mkdir(parents=True, exist_ok=True)
    server = EmbeddedPostgres(home / "postgres", durable=durable)
    try:
        url = server.start()
        migrate(url)
        given = {"backend": "local", "num_cpus": 2, "cancel_grace_s": 5.0, "fresh_seeds": 0, **settings}
        found = Place(home=home, server=server, url=url, settings=Settings(home=home, database_url=url, **given))  # type: ignore[arg-type]
        with open_store(url) as store:
            found.secrets = {role: store.tokens.create(f"{role}-of-the-benchmark", role) for role in Role}
        yield found
    finally:
        server.stop()


@contextmanager
def work_folder(kept: Path | None = None) -> Iterator[Path]:
    """`kept`, which stays, or a temporary folder with a short path."""
    folder = kept or Path(tempfile.mkdtemp(prefix="lt"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder
    finally:
        if kept is None:
            shutil.rmtree(folder, ignore_errors=True)


def end(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, then SIGKILL."""
    process.terminate()
    try:
        process.wait(timeout=15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
