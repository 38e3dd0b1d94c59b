"""Schedules: what a worker does at intervals, by whom it was set, and how far runs were looked at.

    watch    look at the trainings of project `target` ("" for all) as they arrive and open cases for what is found
    backup   write the whole store to a new folder below the folder `target`
    expire   delete points of trainings of project `target` ("" for all) that ended more than `older_than_s` ago

Only an admin sets or revokes one; both go to the ledger. A schedule is never changed: revoke it and set another.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from context_store.database import Database
from context_store.ledger import append_entry
from context_store.models import ScheduleRow, WatchMarkRow
from context_store.records import Run, Schedule
from context_store.redaction import redact
from contracts.enums import Role, RunState, ScheduleAction
from contracts.errors import NotFound, RoleRequired, UserInputError

MIN_EVERY_S, MAX_EVERY_S = 1.0, 366 * 86400.0
_MAX_MESSAGE = 1000


class Schedules:
    def __init__(self, database: Database) -> None:
        self._database = database

    def set(
        self,
        action: ScheduleAction,
        *,
        target: str,
        every_s: float,
        older_than_s: float = 0.0,
        actor: str,
        role: Role,
        reason: str,
        at: float,
    ) -> Schedule:
        """It is due at once and then every `every_s` seconds. Raises RoleRequired below admin, UserInputError."""
        _require_admin(role)
        _check(action, target, every_s, older_than_s, reason)
        values: dict[str, Any] = {"action": action, "target": target, "every_s": every_s, "older_than_s": older_than_s}
        values |= {"reason": redact(reason), "set_by": actor, "set_at": at, "next_at": at, "last_at": None}
        values |= {"last_ok": True, "last_message": "", "revoked_by": "", "revoked_at": None}
        with self._database.begin() as connection:
            row = connection.execute(
                sa.insert(ScheduleRow).values(**values).returning(*ScheduleRow.__table__.columns)
            ).one()
            schedule = Schedule(**row._mapping)
            _record(connection, schedule, "schedule_set", actor, reason, at)
        return schedule

    def revoke(self, schedule_id: int, actor: str, role: Role, reason: str, at: float) -> Schedule:
        """It is not done any more. Raises RoleRequired below admin, NotFound when it is not in force."""
        _require_admin(role)
        update = sa.update(ScheduleRow).where(ScheduleRow.id == schedule_id, ScheduleRow.revoked_at.is_(None))
        update = update.values(revoked_by=actor, revoked_at=at)
        with self._database.begin() as connection:
            row = connection.execute(update.returning(*ScheduleRow.__table__.columns)).one_or_none()
            if row is None:
                raise NotFound(f"no schedule {schedule_id} is in force", remedy="`lathe schedule list` shows them")
            schedule = Schedule(**row._mapping)
            _record(connection, schedule, "schedule_revoked", actor, reason, at)
        return schedule

    def list(self, *, in_force: bool = False) -> builtins.list[Schedule]:
        """Newest first."""
        query = _SCHEDULE.order_by(ScheduleRow.id.desc())
        if in_force:
            query = query.where(ScheduleRow.revoked_at.is_(None))
        with self._database.begin() as connection:
            return [Schedule(**row._mapping) for row in connection.execute(query)]

    def claim(self, now: float) -> Schedule | None:
        """The one that has been due longest, for whoever asks first; it is due again `every_s` after `now`."""
        due = sa.select(ScheduleRow.id).where(ScheduleRow.revoked_at.is_(None), ScheduleRow.next_at <= _time(now))
        first = due.order_by(ScheduleRow.next_at, ScheduleRow.id).limit(1).with_for_update(skip_locked=True)
        with self._database.begin() as connection:
            if (found := connection.execute(first).scalar()) is None:
                return None
            schedule = Schedule(**connection.execute(_SCHEDULE.where(ScheduleRow.id == found)).one()._mapping)
            later = sa.update(ScheduleRow).where(ScheduleRow.id == found)
            connection.execute(later.values(next_at=now + schedule.every_s))
            return schedule

    def report(self, schedule_id: int, message: str, at: float, *, ok: bool) -> None:
        """What came of it."""
        values = {"last_at": at, "last_ok": ok, "last_message": redact(message)[:_MAX_MESSAGE]}
        with self._database.begin() as connection:
            connection.execute(sa.update(ScheduleRow).where(ScheduleRow.id == schedule_id).values(**values))

    # --- how far runs were looked at

    def marks(self) -> Mapping[str, tuple[int, RunState]]:
        """(step, state) at which each run was looked at last."""
        query = sa.select(WatchMarkRow.run_id, WatchMarkRow.step, WatchMarkRow.state)
        with self._database.begin() as connection:
            return {row.run_id: (row.step, row.state) for row in connection.execute(query)}

    def mark(self, run: Run, at: float) -> None:
        """The run was looked at as it is in `run`."""
        values = {"step": run.last_step, "state": run.state, "looked_at": at}
        statement = insert(WatchMarkRow).values(run_id=run.id, **values)
        with self._database.begin() as connection:
            connection.execute(statement.on_conflict_do_update(index_elements=["run_id"], set_=values))


_SCHEDULE = sa.select(ScheduleRow.__table__)


def _time(value: float) -> sa.ColumnElement[float]:
    return sa.literal(value, ScheduleRow.__table__.columns["next_at"].type)


def _check(action: ScheduleAction, target: str, every_s: float, older_than_s: float, reason: str) -> None:
    if not reason.strip():
        raise UserInputError("a schedule needs its reason", remedy="say why with --reason")
    if not MIN_EVERY_S <= every_s <= MAX_EVERY_S:
        raise UserInputError(f"every {every_s:g} s is no interval", remedy="choose between a second and a year")
    if action is ScheduleAction.BACKUP and not target.startswith("/"):
        raise UserInputError("a backup needs its folder", remedy="name it by its whole path")
    if (action is ScheduleAction.EXPIRE) != (0.0 < older_than_s < float("inf")):
        raise UserInputError("`older_than_s` is for `expire`, which needs it", remedy="say how old points may become")


def _require_admin(role: Role) -> None:
    if not role.includes(Role.ADMIN):
        raise RoleRequired(f"a {role.value} may not change a schedule", remedy="ask somebody with the role admin")


def _record(connection: sa.Connection, schedule: Schedule, action: str, actor: str, reason: str, at: float) -> None:
    detail: dict[str, Any] = {"reason": reason, "action": schedule.action.value, "target": schedule.target}
    detail |= {"every_s": schedule.every_s, "older_than_s": schedule.older_than_s}
    subject = f"schedule:{schedule.id}"
    append_entry(connection, actor=actor, action=action, subject=subject, detail=detail, evidence=(), at=at)
