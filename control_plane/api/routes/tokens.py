"""Access tokens: listed, made and revoked by admins. A secret is shown once, when it is made."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.concurrency import run_in_threadpool
from pydantic import Field, StringConstraints

from context_store.records import Token
from contracts.enums import Role
from control_plane.api.access import AdminDep, ClockDep, KnownReaders, StoreDep
from control_plane.api.answer import Answer
from control_plane.api.bodies import MAX_ID, Body, Page, PagingDep, page

router = APIRouter(prefix="/tokens", tags=["tokens"])
TokenId = Annotated[int, Path(ge=1, le=MAX_ID)]
MAX_TOKEN_S = 10 * 366 * 86400.0


class TokenPage(Page):
    tokens: list[Token]


class OneToken(Body):
    token: Token


class MadeToken(OneToken):
    secret: str


class NewToken(Body):
    """`expires_in_s` null: it holds until it is revoked."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"\S")]
    role: Role
    expires_in_s: float | None = Field(default=None, gt=0, le=MAX_TOKEN_S)


@router.get("", response_model=TokenPage)
def tokens(store: StoreDep, _: AdminDep, wish: PagingDep) -> Answer:
    """Newest first, without secrets."""
    found, following = page(store.tokens.list(), wish, lambda each: each.id)
    return Answer({"tokens": found, "next": following})


@router.post("", status_code=HTTPStatus.CREATED, response_model=MadeToken)
def create(store: StoreDep, clock: ClockDep, principal: AdminDep, wish: NewToken) -> Answer:
    """A new token with its secret, which cannot be read again."""
    expires_at = None if wish.expires_in_s is None else clock() + wish.expires_in_s
    secret = store.tokens.create(wish.name, wish.role, actor=principal.name, expires_at=expires_at)
    return Answer({"token": store.tokens.find(secret), "secret": secret}, status_code=HTTPStatus.CREATED)


@router.post("/{token_id}/revoke", response_model=OneToken)
async def revoke(request: Request, store: StoreDep, clock: ClockDep, principal: AdminDep, token_id: TokenId) -> Answer:
    """It opens nothing any more."""
    known: KnownReaders = request.app.state.known_readers
    try:
        revoked = await run_in_threadpool(store.tokens.revoke, token_id, principal.name, clock())
    finally:  # also when the client hung up meanwhile, or the answer of the database was lost
        known.forget()
    return Answer({"token": revoked})
