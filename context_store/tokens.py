"""Access tokens. Only hashes are kept; secrets carry 256 random bits, so a plain sha256 is enough."""

from __future__ import annotations

import builtins
import hashlib
import secrets
from typing import Any

import sqlalchemy as sa

from context_store.database import Database
from context_store.ledger import append_entry
from context_store.models import TokenRow
from context_store.records import Principal, Token
from contracts.enums import Role
from contracts.errors import NotFound, UserInputError


class Tokens:
    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, name: str, role: Role, *, actor: str = "", expires_at: float | None = None) -> str:
        """The secret, which cannot be read again. `actor`: who asked for it ("" is `name`); it goes to the ledger.

        Raises UserInputError without a name, or when it would have ended already.
        """
        now = self._database.clock()
        if not name.strip():
            raise UserInputError("a token needs a name", remedy="say who or what uses it")
        if expires_at is not None and expires_at <= now:
            raise UserInputError("the token would have ended already", remedy="let it end later")
        secret = "lathe_" + secrets.token_urlsafe(32)
        values: dict[str, Any] = {"name": name, "role": role, "created_by": actor or name, "created_at": now}
        values |= {"secret_sha256": _sha256(secret), "expires_at": expires_at, "revoked_by": "", "revoked_at": None}
        with self._database.begin() as connection:
            new_id = connection.execute(sa.insert(TokenRow).values(**values).returning(TokenRow.id)).scalar_one()
            _record(connection, "token_created", new_id, name, role, actor or name, now)
        return secret

    def check(self, secret: str) -> Principal | None:
        """Who the secret speaks for; None when it is no token, or one that was revoked or has ended."""
        with self._database.read() as connection:
            row = connection.execute(_CHECK, {"hash": _sha256(secret), "now": self._database.clock()}).one_or_none()
        return None if row is None else Principal(**row._mapping)

    def find(self, secret: str) -> Token:
        """What is known of the secret's token. Raises NotFound."""
        return self._one(TokenRow.secret_sha256 == _sha256(secret), "of that secret")

    def list(self) -> builtins.list[Token]:
        """Newest first, those that were revoked too."""
        with self._database.begin() as connection:
            return [Token(**row._mapping) for row in connection.execute(_TOKEN.order_by(TokenRow.id.desc()))]

    def revoke(self, token_id: int, actor: str, at: float) -> Token:
        """It opens nothing any more. Idempotent; raises NotFound."""
        token = self._one(TokenRow.id == token_id, str(token_id))
        update = sa.update(TokenRow).where(TokenRow.id == token_id, TokenRow.revoked_at.is_(None))
        with self._database.begin() as connection:
            done = connection.execute(update.values(revoked_by=actor, revoked_at=at).returning(TokenRow.id)).scalar()
            if done is not None:
                _record(connection, "token_revoked", token_id, token.name, token.role, actor, at)
        return self._one(TokenRow.id == token_id, str(token_id))

    def _one(self, condition: sa.ColumnElement[bool], what: str) -> Token:
        with self._database.begin() as connection:
            row = connection.execute(_TOKEN.where(condition)).one_or_none()
        if row is None:
            raise NotFound(f"no token {what}", remedy="`lathe tokens list` shows them")
        return Token(**row._mapping)


_TOKEN = sa.select(*(column for column in TokenRow.__table__.columns if column.key != "secret_sha256"))
_TIME = TokenRow.__table__.columns["expires_at"].type
_CHECK = sa.select(TokenRow.name, TokenRow.role).where(  # made once: every request of the API asks this
    TokenRow.secret_sha256 == sa.bindparam("hash"),
    TokenRow.revoked_at.is_(None),
    TokenRow.expires_at.is_(None) | (TokenRow.expires_at > sa.bindparam("now", type_=_TIME)),
)


def _record(
    connection: sa.Connection, action: str, token_id: int, name: str, role: Role, actor: str, at: float
) -> None:
    detail = {"name": name, "role": role.value}
    subject = f"token:{token_id}"
    append_entry(connection, actor=actor, action=action, subject=subject, detail=detail, evidence=(), at=at)


def _sha256(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()
