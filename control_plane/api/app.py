"""The FastAPI application over one store. It acts on the world by requests in the store only."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.metadata import version

from fastapi import Depends, FastAPI

from context_store import Store
from control_plane.api import problems
from control_plane.api.access import authenticate
from control_plane.api.guards import Guards
from control_plane.api.routes import (
    activity,
    health,
    ingest,
    investigations,
    negatives,
    policies,
    proposals,
    read,
    runs,
)

PREFIX = "/api/v1"
_ROUTES = (health, runs, read, ingest, investigations, proposals, policies, negatives, activity)


def create_app(store: Store, *, clock: Callable[[], float] = time.time) -> FastAPI:
    """Every endpoint needs a token; no cross-origin request is allowed."""
    app = FastAPI(
        title="Lathe",
        version=version("lathe"),
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
    )
    app.state.store = store
    app.state.clock = clock
    app.add_middleware(Guards)
    problems.install(app)
    for routes in _ROUTES:
        app.include_router(routes.router, prefix=PREFIX, dependencies=[Depends(authenticate)])
    return app
