"""Who may do what: Bearer tokens with roles, also on loopback; and the parts of Lathe a route may ask for."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from context_store import Store
from context_store.records import Principal
from contracts.enums import Role
from contracts.errors import RoleRequired
from control_plane.api.limits import Limiter
from control_plane.api.problems import TooManyRequests, Unauthenticated

_bearer = HTTPBearer(auto_error=False, description="What `lathe up` printed, or `lathe tokens create` made.")
_WRONG = "wrong tokens"


async def _store(request: Request) -> Store:
    store: Store = request.app.state.store
    return store


async def _clock(request: Request) -> Callable[[], float]:
    clock: Callable[[], float] = request.app.state.clock
    return clock


StoreDep = Annotated[Store, Depends(_store)]
ClockDep = Annotated[Callable[[], float], Depends(_clock)]


def authenticate(
    request: Request, store: StoreDep, given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
) -> Principal:
    """The token's owner. Raises Unauthenticated, TooManyRequests."""
    principal = store.tokens.check(given.credentials) if given else None
    key = hashlib.sha256(given.credentials.encode()).hexdigest() if given and principal else _WRONG
    limiter: Limiter = request.app.state.limiter
    wait_s = limiter.take(key, request.state.body_bytes, time.monotonic())
    if wait_s > 0.0:
        raise TooManyRequests(wait_s)
    if principal is None:
        raise Unauthenticated(
            "the request has no valid token" if given else "the request has no token",
            remedy="send the header: Authorization: Bearer TOKEN; `lathe up` prints one",
        )
    return principal


PrincipalDep = Annotated[Principal, Depends(authenticate)]


class AtLeast:
    """A dependency on a token with this role or a higher one."""

    def __init__(self, role: Role) -> None:
        self.role = role

    async def __call__(self, principal: PrincipalDep) -> Principal:
        """Raises RoleRequired."""
        if not principal.role.includes(self.role):
            raise RoleRequired(
                f"this needs the role {self.role}, the token's role is {principal.role}",
                remedy=f"use a token with the role {self.role}",
            )
        return principal


ResearcherDep = Annotated[Principal, Depends(AtLeast(Role.RESEARCHER))]
ReviewerDep = Annotated[Principal, Depends(AtLeast(Role.REVIEWER))]
AdminDep = Annotated[Principal, Depends(AtLeast(Role.ADMIN))]
