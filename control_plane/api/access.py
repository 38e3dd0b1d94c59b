"""Who may do what: Bearer tokens with roles, also on loopback; and the parts of Lathe a route may ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from context_store import Store
from context_store.records import Principal
from contracts.enums import Role
from contracts.errors import RoleRequired
from control_plane.api.problems import Unauthenticated

_bearer = HTTPBearer(auto_error=False)


def _store(request: Request) -> Store:
    store: Store = request.app.state.store
    return store


def _clock(request: Request) -> Callable[[], float]:
    clock: Callable[[], float] = request.app.state.clock
    return clock


StoreDep = Annotated[Store, Depends(_store)]
ClockDep = Annotated[Callable[[], float], Depends(_clock)]


def authenticate(store: StoreDep, given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]) -> Principal:
    """The token's owner. Raises Unauthenticated."""
    principal = store.tokens.check(given.credentials) if given else None
    if principal is None:
        raise Unauthenticated(
            "the request has no valid token" if given else "the request has no token",
            remedy="send the header: Authorization: Bearer TOKEN; `lathe up` prints one",
        )
    return principal


PrincipalDep = Annotated[Principal, Depends(authenticate)]


def _at_least(role: Role) -> Callable[[Principal], Principal]:
    def check(principal: PrincipalDep) -> Principal:
        if not principal.role.includes(role):
            raise RoleRequired(
                f"this needs the role {role}, the token's role is {principal.role}",
                remedy=f"use a token with the role {role}",
            )
        return principal

    return check


ResearcherDep = Annotated[Principal, Depends(_at_least(Role.RESEARCHER))]
ReviewerDep = Annotated[Principal, Depends(_at_least(Role.REVIEWER))]
AdminDep = Annotated[Principal, Depends(_at_least(Role.ADMIN))]
