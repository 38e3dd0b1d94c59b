"""What the browser tests share about the processes they start."""

from __future__ import annotations

import socket
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from context_store import Store


@dataclass(frozen=True, kw_only=True)
class RunningLathe:
    """API and page over one store, with one token a role."""

    store: Store
    url: str
    reviewer: str
    viewer: str
    admin: str


@contextmanager
def watched_page(context: Any) -> Iterator[Any]:
    """A page that is signed out. Fails at the end if it asked a foreign address for anything or opened a dialog."""
    context.clear_cookies()
    opened = context.new_page()
    opened.set_default_timeout(60_000)  # a loaded machine is slow, not wrong
    strangers: list[str] = []
    opened.on("request", lambda request: strangers.append(request.url) if _foreign(request.url) else None)
    opened.on("dialog", lambda dialog: strangers.append(f"dialog: {dialog.message}"))
    yield opened
    opened.close()
    assert strangers == []


def _foreign(url: str) -> bool:
    return not url.startswith(("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:"))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(ready: Callable[[], bool], limit_s: float = 90.0) -> None:
    until = time.monotonic() + limit_s
    while not ready():
        assert time.monotonic() < until, "it did not start"
        time.sleep(0.1)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:
            return bool(response.status == 200)
    except OSError:
        return False
