"""The API process: `python -m control_plane.services.api PORT`."""

from __future__ import annotations

import sys

import uvicorn

from control_plane.api.app import create_app
from control_plane.logging import configure_logging
from control_plane.services.ports import LOOPBACK
from control_plane.settings import load_settings
from control_plane.wiring import Lathe

if __name__ == "__main__":
    settings = load_settings()
    configure_logging(settings.log_level, as_json=settings.log_json)
    with Lathe.open(settings) as lathe:
        uvicorn.run(
            create_app(lathe.store),
            host=LOOPBACK,
            port=int(sys.argv[1]),
            log_level="warning",
            timeout_graceful_shutdown=2,
        )
