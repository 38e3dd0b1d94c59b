"""Effects: requests to act, carried out once by whoever claims them.

A claim checks, in its own transaction, that the effect is allowed. A diagnostic re-run needs an open, not used up
budget of its investigation; an undo, an effect that was carried out under an approval and was not taken back yet;
everything else uses up one approval that is bound to exactly this content. What is not allowed ends as REFUSED with
the reason.
"""

from __future__ import annotations

import builtins
import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from context_store.budgets import add_reservation, is_reserved, load_budget, settle_reservation
from context_store.canonical import canonical_json
from context_store.database import Database
from context_store.models import ApprovalRow, EffectRow, ProposalRow
from context_store.proposals import bound_hash
from context_store.records import Effect, EffectRequest
from contracts.enums import EffectKind, EffectState
from contracts.errors import ApprovalInvalid, BudgetExceeded, NotFound, NotPermitted, UserInputError


class Effects:
    def __init__(self, database: Database) -> None:
        self._database = database

    def request(self, request: EffectRequest) -> Effect:
        """Idempotent by key. Raises UserInputError when the key already stands for something else."""
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
        with self._database.begin() as connection:
            return _load(connection, key)

    def list(self, investigation_id: str | None = None, state: EffectState | None = None) -> builtins.list[Effect]:
        """In the order of the requests."""
        query = _EFFECT.order_by(EffectRow.ordinal)
        if investigation_id is not None:
            query = query.where(EffectRow.investigation_id == investigation_id)
        if state is not None:
            query = query.where(EffectRow.state == state)
        with self._database.begin() as connection:
            return [Effect(**row._mapping) for row in connection.execute(query)]

    def claim(self, worker: str, kinds: Collection[EffectKind], lease_s: float, now: float) -> Effect | None:
        """The oldest effect that waits, or whose worker let its lease run out; None when there is none.

        Diagnostic re-runs come last, behind whatever else waits.
        No two workers get the same effect. From `attempt` 2 on the work may be half done already.
        """
        while True:
            with self._database.begin() as connection:
                row = connection.execute(_claimable(kinds, now)).one_or_none()
                if row is None:
                    return None
                effect = Effect(**row._mapping)
                try:
                    _allow(connection, effect, now)
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

    def complete(self, key: str, result: Mapping[str, Any], worker: str | None = None) -> Effect:
        """Done. `result["cpu_s"]`, when there, settles the reservation made under the effect's key.

        Like `fail` and `refuse`: an effect that is over, or is no longer this worker's, stays as it is.
        """
        with self._database.begin() as connection:
            done = _finish(connection, key, EffectState.DONE, self._database.clock(), worker=worker, result=result)
            if done and "cpu_s" in result:
                settle_reservation(connection, key, float(result["cpu_s"]))
            return _load(connection, key)

    def fail(self, key: str, message: str, remedy: str, worker: str | None = None, cpu_s: float = 0.0) -> Effect:
        """`cpu_s`: what it spent before it failed; it becomes the result and settles the reservation, if any."""
        now, result = self._database.clock(), {"cpu_s": cpu_s} if cpu_s else {}
        with self._database.begin() as connection:
            failed = _finish(connection, key, EffectState.FAILED, now, message, remedy, worker=worker, result=result)
            if failed and cpu_s:
                settle_reservation(connection, key, cpu_s)
            return _load(connection, key)

    def refuse(self, key: str, message: str, remedy: str = "", worker: str | None = None) -> Effect:
        with self._database.begin() as connection:
            _finish(connection, key, EffectState.REFUSED, self._database.clock(), message, remedy, worker=worker)
            return _load(connection, key)


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
    last = EffectRow.kind == EffectKind.DIAGNOSTIC_RUN  # re-runs never keep a main run waiting
    return query.order_by(last, EffectRow.ordinal).limit(1).with_for_update(skip_locked=True)


def _allow(connection: sa.Connection, effect: Effect, now: float) -> None:
    """Raises NotPermitted with the reason why this effect may not be carried out."""
    if effect.kind is EffectKind.UNDO:
        _check_undo(connection, effect)
    elif effect.kind is not EffectKind.DIAGNOSTIC_RUN:
        _use_approval(connection, effect, now)
    elif effect.state is EffectState.REQUESTED:
        _check_budget(connection, effect)


def _check_undo(connection: sa.Connection, effect: Effect) -> None:
    """What is taken back must be done, in the same case, approved, and not taken back by another effect."""
    undone = str(effect.payload.get("effect", ""))
    approved = sa.select(ApprovalRow.id).where(ApprovalRow.used_by == EffectRow.key)
    done = (EffectRow.key == undone) & (EffectRow.state == EffectState.DONE) & approved.exists()
    same_case = EffectRow.investigation_id == effect.investigation_id
    if connection.execute(sa.select(EffectRow.key).where(done & same_case).with_for_update()).scalar() is None:
        raise ApprovalInvalid(
            f"effect '{undone}' was not carried out under an approval of this case, so it cannot be taken back",
            remedy="propose what is to be done and have it approved",
        )
    others = (EffectRow.kind == EffectKind.UNDO) & (EffectRow.key != effect.key) & (EffectRow.attempt > 0)
    same = EffectRow.payload == effect.payload
    if connection.execute(sa.select(EffectRow.key).where(others & same)).scalar() is not None:
        raise ApprovalInvalid(f"effect '{undone}' was taken back before", remedy="look at the run's timeline")


def _check_budget(connection: sa.Connection, effect: Effect) -> None:
    """A reservation under the effect's key will do; else the re-run is counted now, and its seconds at its end."""
    budget = load_budget(connection, effect.investigation_id or "", lock=True)
    if budget is None:
        raise BudgetExceeded(
            f"no budget is open for investigation {effect.investigation_id}",
            remedy="open a budget under the investigation's id before asking for diagnostics",
        )
    if is_reserved(connection, effect.key):
        return
    if budget.cpu_s_left <= 0 or budget.reruns_left < 1:
        raise BudgetExceeded(
            f"the budget of investigation {effect.investigation_id} is used up",
            remedy="decide on the evidence there is, or open a new case with a larger budget",
        )
    add_reservation(connection, budget.id, effect.key, cpu_s=0.0, reruns=1)


def _use_approval(connection: sa.Connection, effect: Effect, now: float) -> None:
    """Use up the approval of the effect's proposal, or find it used up by this very effect before."""
    proposal = connection.execute(
        sa.select(ProposalRow.diff, ProposalRow.base_state).where(ProposalRow.id == (effect.proposal_id or ""))
    ).one_or_none()
    if proposal is None:
        raise ApprovalInvalid(f"effect {effect.key} has no proposal", remedy="make a proposal and have it approved")
    approval = connection.execute(
        sa.select(ApprovalRow.__table__)
        .where(ApprovalRow.proposal_id == effect.proposal_id, ApprovalRow.used_by.in_(["", effect.key]))
        .order_by(ApprovalRow.used_by.desc())
        .limit(1)
        .with_for_update()
    ).one_or_none()
    if approval is None:
        raise ApprovalInvalid(
            f"proposal {effect.proposal_id} has no unused approval", remedy="have the proposal approved (again)"
        )
    if approval.bound_hash != bound_hash(effect.kind, effect.payload, proposal.diff, proposal.base_state):
        raise ApprovalInvalid(
            f"the approval of {effect.proposal_id} is for another content than effect {effect.key}",
            remedy="propose what is to be done now and have that approved",
        )
    if approval.used_by == "" and approval.expires_at <= now:
        raise ApprovalInvalid(
            f"the approval of {effect.proposal_id} has expired", remedy="have the proposal made and approved again"
        )
    connection.execute(sa.update(ApprovalRow).where(ApprovalRow.id == approval.id).values(used_by=effect.key))


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
    """True when the effect was still going on (and `worker`'s, when given)."""
    going_on = EffectRow.state.in_([EffectState.REQUESTED, EffectState.RUNNING])
    statement = sa.update(EffectRow).where(EffectRow.key == key, going_on)
    if worker is not None:
        statement = statement.where(EffectRow.worker == worker)
    values = {"state": state, "message": message, "remedy": remedy, "finished_at": now, "lease_until": None}
    statement = statement.values(**values, result=dict(result or {})).returning(EffectRow.key)
    return connection.execute(statement).scalar() is not None
