"""Who may do what: Bearer tokens with roles, also on loopback; and the parts of Lathe a route may ask for.

A token that only reads is looked up once a second, so one that was revoked elsewhere (`lathe tokens revoke`) may read
for that long; whatever changes something looks it up every time, and a revocation holds at once in the process of the
API that it came to.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from context_store import Store
from context_store.records import Principal
from contracts.enums import Role
from contracts.errors import RoleRequired
from control_plane.api.auditing import READS, note_request
from control_plane.api.limits import Limiter
from control_plane.api.problems import TooManyRequests, Unauthenticated

_bearer = HTTPBearer(auto_error=False, description="What `lathe up` printed, or `lathe tokens create` made.")
_WRONG = "wrong tokens"
_KNOWN_FOR_S = 1.0
_MAX_KNOWN = 1000


class KnownReaders:
    """Whose token was looked up a moment ago, by its hash; used on the event loop only."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Principal, float]] = {}
        self.num_revocations = 0

    def find(self, key: str, now: float) -> Principal | None:
        principal, until = self._known.get(key, (None, now))
        return principal if until > now else None

    def keep(self, key: str, principal: Principal | None, now: float, num_revocations: int) -> None:
        """What a look-up found that began at `now`, after so many revocations: if one came since, it is not kept."""
        self._known.pop(key, None)
        if principal is not None and num_revocations == self.num_revocations:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[key] = (principal, now + _KNOWN_FOR_S)

    def forget(self) -> None:
        """A token was revoked, so everybody is looked up again."""
        self._known.clear()
        self.num_revocations += 1


async def _store(request: Request) -> Store:
    store: Store = request.app.state.store
    return store


async def _clock(request: Request) -> Callable[[], float]:
    clock: Callable[[], float] = request.app.state.clock
    return clock


StoreDep = Annotated[Store, Depends(_store)]
ClockDep = Annotated[Callable[[], float], Depends(_clock)]


async def authenticate(
    request: Request, store: StoreDep, given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
) -> Principal:
    """The token's owner. Raises Unauthenticated, TooManyRequests."""
    key = _key(given.credentials) if given else _WRONG
    principal = await _owner(request, store, given.credentials, key) if given else None
    limiter: Limiter = request.app.state.limiter
    wait_s = limiter.take(key if principal else _WRONG, request.state.body_bytes, time.monotonic())
    if wait_s > 0.0:
        raise TooManyRequests(wait_s)
    if principal is None:
        raise Unauthenticated(
            "the request has no valid token" if given else "the request has no token",
            remedy="send the header: Authorization: Bearer TOKEN; `lathe up` prints one",
        )
    request.state.principal = principal
    if request.method not in READS:
        await run_in_threadpool(note_request, request, principal, {})
    return principal


async def still_holds(request: Request, store: Store) -> bool:
    """Is the token valid now that the request came with? For answers that last; looked up once a second."""
    given = await _bearer(request)
    return given is not None and await _owner(request, store, given.credentials, _key(given.credentials)) is not None


def _key(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()


async def _owner(request: Request, store: Store, secret: str, key: str) -> Principal | None:
    known: KnownReaders = request.app.state.known_readers
    now, num_revocations = time.monotonic(), known.num_revocations
    found = known.find(key, now) if request.method in READS else None
    if found is None:
        found = await run_in_threadpool(store.tokens.check, secret)
        known.keep(key, found, now, num_revocations)
    return found


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
