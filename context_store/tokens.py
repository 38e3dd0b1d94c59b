"""Access tokens. Only hashes are kept; secrets carry 256 random bits, so a plain sha256 is enough."""

from __future__ import annotations

import hashlib
import secrets

import sqlalchemy as sa

from context_store.database import Database
from context_store.models import TokenRow
from context_store.records import Principal
from contracts.enums import Role


class Tokens:
    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, name: str, role: Role) -> str:
        """The secret, which cannot be read again."""
        secret = "lathe_" + secrets.token_urlsafe(32)
        values = {"secret_sha256": _sha256(secret), "name": name, "role": role, "created_at": self._database.clock()}
        with self._database.begin() as connection:
            connection.execute(sa.insert(TokenRow).values(**values))
        return secret

    def check(self, secret: str) -> Principal | None:
        """Who the secret speaks for; None when it is no token."""
        query = sa.select(TokenRow.name, TokenRow.role).where(TokenRow.secret_sha256 == _sha256(secret))
        with self._database.begin() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None else Principal(**row._mapping)


def _sha256(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
