"""Who did the work (RM2-7.21): each actor's share of the ledger, by steps and by time.

steps   entries of the ledger; requests over HTTP do not count, because what came of them has entries of its own
time    what passed since the entry before about the same object, at most an hour of it: somebody worked on it until
        then, or was waited for
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from context_store.database import Database
from context_store.models import LedgerRow

MAX_GAP_S = 3600.0
DEFINITION = (
    "steps: entries of the ledger without HTTP requests; time: since the entry before about the same object, at most "
    f"{MAX_GAP_S:.0f} s of it. Agents are loops, roles, skills, acts of the chat, schedules and the worker; all "
    "others are persons"
)
_AGENTS = ("loop", "agent", "skill", "chat", "schedule")
_ALONE = frozenset({"worker", "roles"})


@dataclass(frozen=True, kw_only=True)
class ActorShare:
    actor: str
    is_agent: bool
    steps: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Shares:
    """`begin`, `end`: times of the first and the last entry that counts, None without any. Shares are of 1."""

    begin: float | None
    end: float | None
    actors: tuple[ActorShare, ...]
    definition: str = DEFINITION

    @property
    def agents_by_steps(self) -> float:
        return _share([(each.is_agent, each.steps) for each in self.actors])

    @property
    def agents_by_time(self) -> float:
        return _share([(each.is_agent, each.seconds) for each in self.actors])


def shares(database: Database, since: float, until: float) -> Shares:
    """Of what was written between the two times."""
    entry = LedgerRow.__table__.c
    before = sa.func.lag(entry.at).over(partition_by=entry.subject, order_by=entry.id)
    columns = (entry.actor, _epoch(entry.at).label("at"), _epoch(before).label("before"))
    counted = sa.select(*columns).where(~entry.subject.startswith("request:")).subquery()
    gap = sa.func.coalesce(counted.c.at - counted.c.before, 0.0)
    seconds = sa.func.sum(sa.func.greatest(0.0, sa.func.least(gap, MAX_GAP_S)))
    query = sa.select(
        counted.c.actor, sa.func.count(), seconds, sa.func.min(counted.c.at), sa.func.max(counted.c.at)
    ).where(counted.c.at >= since, counted.c.at <= until)
    with database.read() as connection:
        rows = connection.execute(query.group_by(counted.c.actor).order_by(sa.func.count().desc())).all()
    actors = tuple(
        ActorShare(actor=actor, is_agent=_is_agent(actor), steps=steps, seconds=float(time))
        for actor, steps, time, _, _ in rows
    )
    begin = min((float(row[3]) for row in rows), default=None)
    return Shares(begin=begin, end=max((float(row[4]) for row in rows), default=None), actors=actors)


def _epoch(at: sa.ColumnElement[Any]) -> sa.ColumnElement[float]:
    return sa.cast(sa.extract("epoch", at), sa.Double)


def _is_agent(actor: str) -> bool:
    return actor in _ALONE or (actor.partition(":")[0] in _AGENTS and ":" in actor)


def _share(parts: Sequence[tuple[bool, float]]) -> float:
    whole = sum(amount for _, amount in parts)
    return sum(amount for is_agent, amount in parts if is_agent) / whole if whole else 0.0
