"""A really running Lathe for the browser: API over a real store, Streamlit as a process, headless Chromium."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import uvicorn
from running import RunningLathe, answers, free_port, wait_until, watched_page

from context_store import Store, open_store
from contracts.enums import Role
from control_plane.api.app import ApiOptions, create_app
from control_plane.chat import RULES_ALONE, Mind
from control_plane.doctor import Check

ROOT = Path(__file__).parents[2]
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def served_store(new_database_url: Callable[[], str]) -> Iterator[Store]:
    with open_store(new_database_url()) as store:
        yield store


@pytest.fixture(scope="module")
def mind() -> Mind:
    """What answers in chat: rules, unless a module has a model."""
    return RULES_ALONE


def _checks() -> tuple[Check, ...]:
    disk = Check(name="disk", ok=False, detail="0.1 GiB free <b>", remedy="free some space")
    return (disk, Check(name="service worker", ok=None, detail="does not run", remedy="start it with: lathe up"))


@pytest.fixture(scope="module")
def api_url(served_store: Store, mind: Mind) -> Iterator[str]:
    """The real API in a thread."""
    port = free_port()
    app = create_app(served_store, options=ApiOptions(mind=mind, checks=_checks))
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_until(lambda: server.started)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(timeout=10)


@pytest.fixture(scope="module")
def lathe(served_store: Store, api_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLathe]:
    """The page as `lathe up` starts it, with one token a role."""
    port = free_port()
    command = [sys.executable, "-m", "streamlit", "run", "ui/app.py", "--server.address", "127.0.0.1"]
    command += ["--server.port", str(port)]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("LATHE_")}
    log = tmp_path_factory.mktemp("ui") / "streamlit.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=ROOT, env={**environment, "LATHE_API_URL": api_url}, stdout=out, stderr=subprocess.STDOUT
        )
        try:
            url = f"http://127.0.0.1:{port}"
            wait_until(lambda: answers(f"{url}/_stcore/health"))
            reviewer = served_store.tokens.create("ada", Role.REVIEWER)
            viewer = served_store.tokens.create("vera", Role.VIEWER)
            admin = served_store.tokens.create("root", Role.ADMIN)
            yield RunningLathe(store=served_store, url=url, reviewer=reviewer, viewer=viewer, admin=admin)
        finally:
            process.terminate()
            process.wait(timeout=10)


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    """Headless Chromium, with one profile for all tests: its cache spares each of them the page's scripts."""
    playwright = pytest.importorskip("playwright.sync_api", reason="the browser tests need `pip install playwright`")
    executable = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if executable is None:
        pytest.skip("the browser tests need chromium: apt-get install chromium")
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=executable, headless=True, args=CHROMIUM_FLAGS)
        yield opened.new_context(viewport={"width": 1280, "height": 900})
        opened.close()


@pytest.fixture
def page(browser: object) -> Iterator[object]:
    with watched_page(browser) as opened:
        yield opened
