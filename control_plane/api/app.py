"""The FastAPI application over one store. It acts on the world by requests in the store only."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from anyio.to_thread import current_default_thread_limiter
from fastapi import Depends, FastAPI
from fastapi.routing import APIRoute

from context_store import Store
from control_plane.api import problems
from control_plane.api.access import KnownReaders, authenticate
from control_plane.api.answering import Answering
from control_plane.api.description import describe
from control_plane.api.guards import Guards
from control_plane.api.limits import Allowance, Limiter
from control_plane.api.routes import (
    activity,
    audit,
    budgets,
    chat,
    classifiers,
    data,
    effects,
    evals,
    evolution,
    experiments,
    health,
    ingest,
    investigations,
    layer_map,
    loops,
    negatives,
    policies,
    potential,
    projects,
    proposals,
    read,
    runs,
    schedules,
    search,
    tokens,
    triage,
)
from control_plane.chat import RULES_ALONE, Mind
from control_plane.doctor import Check

PREFIX = "/api/v1"
_THREADS = 6
_ROUTES = (  # tried in this order: first what is asked for most often
    runs,
    activity,
    health,
    projects,
    layer_map,
    read,
    ingest,
    investigations,
    loops,
    triage,
    proposals,
    effects,
    budgets,
    experiments,
    classifiers,
    policies,
    schedules,
    negatives,
    search,
    evals,
    potential,
    data,
    chat,
    tokens,
    audit,
    evolution,
)
_DESCRIPTION = """Every request needs `Authorization: Bearer TOKEN`. Roles: viewer, researcher, reviewer, admin, each
with the rights of those before it. Lists come in pages: give `next` of an answer as `after` of the following request.
Errors are `application/problem+json` with a `remedy`. Times are unix seconds."""


@dataclass(frozen=True, kw_only=True)
class ApiOptions:
    """What is not the store's. `hosts`: names besides loopback by which the API may be called.

    `chats`: folder by which several processes of this API know of each other's answers.
    """

    hosts: tuple[str, ...] = ()
    allowance: Allowance = field(default_factory=Allowance)
    checks: Callable[[], Iterable[Check]] = tuple  # of the machine that the API runs on
    mind: Mind = RULES_ALONE  # what answers in chat
    chats: Path | None = None


def create_app(store: Store, *, clock: Callable[[], float] = time.time, options: ApiOptions | None = None) -> FastAPI:
    """Every endpoint needs a token; no cross-origin request is allowed."""
    chosen = options or ApiOptions()
    app = FastAPI(
        title="Lathe",
        version=version("lathe"),
        description=_DESCRIPTION,
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=_operation,
        lifespan=_few_threads,
    )
    app.state.store = store
    app.state.clock = clock
    app.state.checks = chosen.checks
    app.state.mind = chosen.mind
    app.state.answering = Answering(chosen.chats)
    app.state.limiter = Limiter(chosen.allowance)
    app.state.known_readers = KnownReaders()
    app.add_middleware(Guards, hosts=chosen.hosts)
    problems.install(app)
    for routes in _ROUTES:
        app.include_router(routes.router, prefix=PREFIX, dependencies=[Depends(authenticate)])
    app.openapi = describe(app)  # type: ignore[method-assign]
    return app


@asynccontextmanager
async def _few_threads(_: FastAPI) -> AsyncIterator[None]:
    """More of them would only wait for each other: one at a time runs Python, the others ask the database."""
    current_default_thread_limiter().total_tokens = _THREADS
    yield


def _operation(route: APIRoute) -> str:
    return f"{route.tags[0]}.{route.name}"
