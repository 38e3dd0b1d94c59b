"""Effects: requests to act, carried out once by whoever claims them.

A claim checks, in its own transaction, that the effect is allowed (`permits.py`). What is not allowed ends as REFUSED
with the reason. While everything is halted only stopping, pausing and checkpointing are claimed.
"""

from __future__ import annotations

import builtins
import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from context_store.budgets import release_reservation, settle_reservation
from context_store.canonical import canonical_json
from context_store.database import Database
from context_store.models import EffectRow
from context_store.permits import allow, settled
from context_store.policies import CLAIMED_WHILE_HALTED, WITHIN_BUDGET, load_policy
from context_store.records import Effect, EffectRequest
from context_store.redaction import redact
from contracts.enums import EffectKind, EffectState, PolicyKind, ProposalState
from contracts.errors import NotFound, NotPermitted, UserInputError

_NOTHING: Mapping[str, float] = {}


class Effects:
    def __init__(self, database: Database) -> None:
        self._database = database

    def request(self, request: EffectRequest) -> Effect:
        """Idempotent by key. Raises UserInputError when the key stands for something else, already or always."""
        if not request.key.strip() or request.key in _RESERVED_WORDS or request.key.startswith(_RESERVED_PREFIXES):
            raise UserInputError(
                f"'{request.key}' is no key of an effect", remedy="begin it with apply: or a case's id"
            )
        values = {f.name: getattr(request, f.name) for f in dataclasses.fields(EffectRequest)}
        statement = insert(EffectRow).values(
            **values,
            state=EffectState.REQUESTED,
            worker="",
            attempt=0,
            result={},
            message="",
            remedy="",
            requested_at=self._database.clock(),
        )
        with self._database.begin() as connection:
            connection.execute(statement.on_conflict_do_nothing())
        effect = self.get(request.key)
        if _content(effect) != _content(request):
            raise UserInputError(
                f"effect '{request.key}' was requested before with another content",
                remedy="use a new key for a new effect",
            )
        return effect

    def get(self, key: str) -> Effect:
        """Raises NotFound."""
        with self._database.read() as connection:
            return _load(connection, key)

    def list(self, investigation_id: str | None = None, state: EffectState | None = None) -> builtins.list[Effect]:
        """In the order of the requests."""
        query = _EFFECT.order_by(EffectRow.ordinal)
        if investigation_id is not None:
            query = query.where(EffectRow.investigation_id == investigation_id)
        if state is not None:
            query = query.where(EffectRow.state == state)
        with self._database.read() as connection:
            return [Effect(**row._mapping) for row in connection.execute(query)]

    def claim(self, worker: str, kinds: Collection[EffectKind], lease_s: float, now: float) -> Effect | None:
        """The oldest effect that waits, or whose worker let its lease run out; None when there is none.

        Diagnostic re-runs come last, behind whatever else waits.
        No two workers get the same effect. From `attempt` 2 on the work may be half done already.
        """
        while True:
            with self._database.begin() as connection:
                halted = load_policy(connection, PolicyKind.HALT) is not None
                now_possible = CLAIMED_WHILE_HALTED & set(kinds) if halted else kinds
                row = connection.execute(_claimable(now_possible, now)).one_or_none()
                if row is None:
                    return None
                effect = Effect(**row._mapping)
                try:
                    with connection.begin_nested():  # what the checks took is given back when one of them says no
                        allow(connection, effect, now)
                except NotPermitted as refusal:
                    _finish(connection, effect.key, EffectState.REFUSED, now, refusal.message, refusal.remedy)
                    continue
                lease = {"state": EffectState.RUNNING, "worker": worker, "lease_until": now + lease_s}
                update = sa.update(EffectRow).where(EffectRow.key == effect.key)
                connection.execute(update.values(**lease, attempt=EffectRow.attempt + 1))
                return _load(connection, effect.key)

    def heartbeat(self, key: str, worker: str, lease_s: float, now: float) -> bool:
        """Extend the lease. False: somebody else has it (or it is over); stop working on it."""
        mine = (EffectRow.key == key) & (EffectRow.worker == worker) & (EffectRow.state == EffectState.RUNNING)
        statement = sa.update(EffectRow).where(mine).values(lease_until=now + lease_s).returning(EffectRow.key)
        with self._database.begin() as connection:
            return connection.execute(statement).scalar() is not None

    def abandon(self, workers: Collection[str], now: float) -> int:
        """These workers are dead for certain: what they had in hand can be claimed now. Returns how much that was."""
        theirs = EffectRow.worker.in_(workers) & (EffectRow.state == EffectState.RUNNING)
        statement = sa.update(EffectRow).where(theirs, EffectRow.lease_until >= now).values(lease_until=now - 1.0)
        with self._database.begin() as connection:
            return len(connection.execute(statement.returning(EffectRow.key)).all())

    def put_back(self, key: str, worker: str, cpu_s: float) -> bool:
        """Let it be claimed again later; `cpu_s`, in all, was spent on it so far. False: it is not this worker's."""
        mine = (EffectRow.key == key) & (EffectRow.worker == worker) & (EffectRow.state == EffectState.RUNNING)
        values = {"state": EffectState.REQUESTED, "worker": "", "lease_until": None, "result": {"cpu_s": cpu_s}}
        with self._database.begin() as connection:
            statement = sa.update(EffectRow).where(mine).values(**values).returning(EffectRow.key)
            return connection.execute(statement).scalar() is not None

    def complete(self, key: str, result: Mapping[str, Any], worker: str | None = None) -> Effect:
        """Done. What `result` says was spent (`cpu_s`, `wall_s`, ...) settles the reservation under the effect's key.

        Like `fail` and `refuse`: an effect that is over, or is no longer this worker's, stays as it is.
        """
        with self._database.begin() as connection:
            now = self._database.clock()
            _finish(connection, key, EffectState.DONE, now, worker=worker, result=result)
            return _load(connection, key)

    def fail(
        self, key: str, message: str, remedy: str, worker: str | None = None, spent: Mapping[str, float] = _NOTHING
    ) -> Effect:
        """`spent`: seconds (`cpu_s`, `wall_s`) before it failed; they become the result and settle the reservation."""
        with self._database.begin() as connection:
            now = self._database.clock()
            _finish(connection, key, EffectState.FAILED, now, message, remedy, worker=worker, result=spent)
            return _load(connection, key)

    def refuse(
        self, key: str, message: str, remedy: str = "", worker: str | None = None, spent: Mapping[str, float] = _NOTHING
    ) -> Effect:
        """It may not be done (any further); but for what was `spent`, what was reserved for it goes back."""
        with self._database.begin() as connection:
            now = self._database.clock()
            _finish(connection, key, EffectState.REFUSED, now, message, remedy, worker=worker, result=spent)
            return _load(connection, key)


# An effect's key marks the approvals it uses up and the reservation it spends from; these mean something else there.
_RESERVED_WORDS = frozenset(state.value for state in ProposalState)
_RESERVED_PREFIXES = ("approval:", "budget:", "edge:", "llm:", "embed:")
_EFFECT = sa.select(*(column for column in EffectRow.__table__.columns if column.key != "ordinal"))


def _content(request: EffectRequest) -> str:
    return canonical_json([request.kind.value, request.payload, request.investigation_id, request.proposal_id])


def _load(connection: sa.Connection, key: str) -> Effect:
    row = connection.execute(_EFFECT.where(EffectRow.key == key)).one_or_none()
    if row is None:
        raise NotFound(f"no effect '{key}'", remedy="request it first")
    return Effect(**row._mapping)


def _claimable(kinds: Collection[EffectKind], now: float) -> sa.Select[Any]:
    waits = EffectRow.state == EffectState.REQUESTED
    abandoned = (EffectRow.state == EffectState.RUNNING) & (EffectRow.lease_until < now)
    query = _EFFECT.where(EffectRow.kind.in_(kinds), waits | abandoned)
    last = EffectRow.kind.in_(WITHIN_BUDGET)  # re-runs never keep a main run waiting
    return query.order_by(last, EffectRow.ordinal).limit(1).with_for_update(skip_locked=True)


def _finish(
    connection: sa.Connection,
    key: str,
    state: EffectState,
    now: float,
    message: str = "",
    remedy: str = "",
    *,
    worker: str | None = None,
    result: Mapping[str, Any] | None = None,
) -> bool:
    """True when the effect was still going on (and `worker`'s, when given): then its reservation is settled too."""
    begun = [EffectState.RUNNING] if state is EffectState.DONE else [EffectState.REQUESTED, EffectState.RUNNING]
    going_on = EffectRow.state.in_(begun)  # what nobody was allowed to begin is never done
    spent = {**settled(_load(connection, key).result), **settled(result or {})}  # the former by what was put back
    statement = sa.update(EffectRow).where(EffectRow.key == key, going_on)
    if worker is not None:
        statement = statement.where(EffectRow.worker == worker)
    over = {"state": state, "finished_at": now, "lease_until": None}
    values = {**over, "message": redact(message), "remedy": redact(remedy)}
    statement = statement.values(**values, result={**spent, **(result or {})}).returning(EffectRow.key)
    if connection.execute(statement).scalar() is None:
        return False
    if state is EffectState.REFUSED and not spent:
        release_reservation(connection, key)
    else:
        settle_reservation(connection, key, **spent)
    return True
