"""The API: `python -m control_plane.services.api PORT`.

It listens before it forks the processes that answer (see `keeper`), so requests that come while a killed one is being
replaced wait instead of being refused. There are `api_processes` of them: one runs Python on one core at a time.
"""

from __future__ import annotations

import gc
import socket
import sys
from dataclasses import replace

import uvicorn

from control_plane.api.app import ApiOptions, create_app
from control_plane.api.limits import Allowance
from control_plane.chat import mind_of
from control_plane.doctor import WITHOUT_STARTING, examine
from control_plane.logging import configure_logging
from control_plane.services.keeper import keep, preload
from control_plane.settings import Settings, load_settings
from control_plane.wiring import Lathe

_SWITCH_S = 0.001  # an answer of the database waits no longer for a thread that computes
_BACKLOG = 512
LATER = ("uvicorn.loops.auto", "uvicorn.protocols.http.auto", "uvicorn.lifespan.on", "loops.debug.loop")


def serve(settings: Settings, listener: socket.socket) -> None:
    """Until SIGTERM."""
    options = ApiOptions(
        hosts=settings.api_host_names,
        allowance=Allowance(
            requests_per_s=settings.api_requests_per_s / settings.api_processes,
            bytes_per_s=settings.api_bytes_per_s / settings.api_processes,
        ),
        chats=settings.home / "chats",
        checks=lambda: examine(settings, WITHOUT_STARTING),
    )
    with Lathe.open(settings) as lathe:
        app = create_app(lathe.store, options=replace(options, mind=mind_of(lathe)))
        sys.setswitchinterval(_SWITCH_S)
        gc.freeze()  # what was imported stays, so no collection needs to look at it
        config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=2)
        uvicorn.Server(config).run(sockets=[listener])


def listen(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.create_server((address, port), family=family, backlog=_BACKLOG)


if __name__ == "__main__":
    settings = load_settings()
    configure_logging(settings.log_level, as_json=settings.log_json)
    preload(LATER)
    listener = listen(settings.api_listen, int(sys.argv[1]))
    keep(lambda: serve(settings, listener), num_children=settings.api_processes)
