"""The API process: `python -m control_plane.services.api PORT`."""

from __future__ import annotations

import gc
import sys
from dataclasses import replace

import uvicorn

from control_plane.api.app import ApiOptions, create_app
from control_plane.api.limits import Allowance
from control_plane.chat import mind_of
from control_plane.doctor import WITHOUT_STARTING, examine
from control_plane.logging import configure_logging
from control_plane.settings import load_settings
from control_plane.wiring import Lathe

_SWITCH_S = 0.001  # an answer of the database waits no longer for a thread that computes

if __name__ == "__main__":
    settings = load_settings()
    configure_logging(settings.log_level, as_json=settings.log_json)
    options = ApiOptions(
        hosts=settings.api_host_names,
        allowance=Allowance(requests_per_s=settings.api_requests_per_s, bytes_per_s=settings.api_bytes_per_s),
        checks=lambda: examine(settings, WITHOUT_STARTING),
    )
    with Lathe.open(settings) as lathe:
        app = create_app(lathe.store, options=replace(options, mind=mind_of(lathe)))
        sys.setswitchinterval(_SWITCH_S)
        gc.freeze()  # what was imported stays, so no collection needs to look at it
        uvicorn.run(
            app,
            host=settings.api_listen,
            port=int(sys.argv[1]),
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=2,
        )
