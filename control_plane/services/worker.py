"""The worker process: `python -m control_plane.services.worker`. SIGTERM ends it in order. See `keeper`."""

from __future__ import annotations

import os
import platform
import signal
import threading

from control_plane.logging import configure_logging
from control_plane.services.keeper import keep, preload
from control_plane.settings import Settings, load_settings
from control_plane.upkeep import Upkeep
from control_plane.wiring import Lathe
from control_plane.worker import Worker

LATER = (
    "agents.roles",
    "control_plane.chat",
    "control_plane.effects",
    "control_plane.executor",
    "langgraph.checkpoint.postgres",
    "langgraph.graph",
    "loops.debug.loop",
    "loops.runner",
)


def work(settings: Settings) -> None:
    """Until SIGTERM."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with Lathe.open(settings) as lathe, Worker(lathe, name=f"{platform.node()}:{os.getpid()}") as worker:
        upkeep = threading.Thread(target=Upkeep(lathe).run_until, args=[stop])
        upkeep.start()
        try:
            worker.run_forever(stop)
        finally:
            stop.set()
            upkeep.join()


if __name__ == "__main__":
    settings = load_settings()
    configure_logging(settings.log_level, as_json=settings.log_json)
    preload(LATER)
    keep(lambda: work(settings))
