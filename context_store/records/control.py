"""Tokens as they are listed, and what is done at intervals."""

from __future__ import annotations

from dataclasses import dataclass

from contracts.enums import Role, ScheduleAction


@dataclass(frozen=True, kw_only=True)
class Token:
    """A token without its secret. `expires_at` None: it holds until it is revoked."""

    id: int
    name: str
    role: Role
    created_by: str
    created_at: float
    expires_at: float | None
    revoked_by: str
    revoked_at: float | None


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """What a worker does every `every_s` seconds, until it is revoked. See `store.schedules` for the actions.

    `last_message`: what came of it last, "" before that; `last_ok` is False when that failed.
    """

    id: int
    action: ScheduleAction
    target: str
    every_s: float
    older_than_s: float
    reason: str
    set_by: str
    set_at: float
    next_at: float
    last_at: float | None
    last_ok: bool
    last_message: str
    revoked_by: str
    revoked_at: float | None
