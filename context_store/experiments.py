"""Experiments of the dual loop: where each stands, and which edge may be passed (RM2-7.18).

The outer edges, the plan that is begun and the iteration that follows, need an approval by a person, bound to exactly
this edge at this place of the history and used up by it. The inner ones need only what is left of the budget. An edge
is passed in one transaction: approval or reservation, new stage and history together or not at all.
"""

from __future__ import annotations

import builtins
from enum import Enum

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from context_store.budgets import close_budget, open_share, reserve_amount
from context_store.database import Database
from context_store.ledger import append_entry
from context_store.models import ExperimentRow, ExperimentStepRow, LedgerRow
from context_store.permits import Deed, use_approvals
from context_store.policies import load_policy
from context_store.records import Amount, Experiment, ExperimentStep, Json
from context_store.redaction import redact
from contracts.enums import EffectKind, PolicyKind, Stage
from contracts.errors import NotFound, NotPermitted, UserInputError

_PLANNED = "planned"
_FREE = Amount()


class Edge(Enum):
    """Who may pass it."""

    OUTER = "outer"  # a person, by an approval
    INNER = "inner"  # the loop by itself, within its budget


EDGES = {
    (Stage.PLAN, Stage.DEVELOP): Edge.OUTER,
    (Stage.DEVELOP, Stage.ANALYSE): Edge.INNER,
    (Stage.ANALYSE, Stage.REVIEW): Edge.INNER,
    (Stage.REVIEW, Stage.ITERATE): Edge.INNER,
    (Stage.ITERATE, Stage.ANALYSE): Edge.INNER,  # goes on by itself
    (Stage.ITERATE, Stage.PLAN): Edge.OUTER,  # the next iteration
    (Stage.ITERATE, Stage.ENDED): Edge.INNER,
}


class Experiments:
    def __init__(self, database: Database) -> None:
        self._database = database

    def open(
        self,
        experiment_id: str,
        title: str,
        actor: str,
        at: float,
        amount: Amount,
        *,
        plan: Json | None = None,
        parent_id: str | None = None,
    ) -> Experiment:
        """Idempotent by id; it stands at PLAN. `amount`: what it may spend, at most what its parent has left.

        `plan`: what is to be tried, for whoever does the work; it stays in the ledger. Without one no worker drives
        the experiment.
        """
        budget_id = f"experiment:{experiment_id}"
        values = {"id": experiment_id, "title": redact(title), "budget_id": budget_id, "opened_by": actor}
        start = {"stage": Stage.PLAN, "iteration": 1, "sequence": 0, "opened_at": at}
        subject = f"experiment:{experiment_id}"
        with self._database.begin() as connection:
            open_share(connection, budget_id, amount, parent_id)
            statement = insert(ExperimentRow).values(**values, **start).on_conflict_do_nothing()
            is_new = connection.execute(statement.returning(ExperimentRow.id)).scalar() is not None
            if is_new and plan is not None:
                append_entry(connection, actor=actor, action=_PLANNED, subject=subject, detail=plan, evidence=(), at=at)
            return _load(connection, experiment_id)

    def plan(self, experiment_id: str) -> Json | None:
        """What it was opened with."""
        mine = (LedgerRow.subject == f"experiment:{experiment_id}") & (LedgerRow.action == _PLANNED)
        with self._database.read() as connection:
            found: Json | None = connection.execute(sa.select(LedgerRow.detail).where(mine)).scalar()
        return found

    def to_drive(self) -> builtins.list[Experiment]:
        """Those with a plan that have not ended, oldest first."""
        planned = sa.select(LedgerRow.id).where(
            LedgerRow.action == _PLANNED, LedgerRow.subject == sa.literal("experiment:").concat(ExperimentRow.id)
        )
        going_on = (ExperimentRow.stage != Stage.ENDED) & planned.exists()
        query = sa.select(ExperimentRow.__table__).where(going_on)
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(ExperimentRow.opened_at, ExperimentRow.id))
            return [Experiment(**row._mapping) for row in rows]

    def stop(self, experiment_id: str, actor: str, reason: str) -> Experiment:
        """A person ends it wherever it stands; what is left of its budget goes back. Idempotent."""
        with self._database.begin() as connection:
            experiment = _load(connection, experiment_id, lock=True)
            if experiment.stage is Stage.ENDED:
                return experiment
            return self._move(
                connection, experiment, Stage.ENDED, f"stopped: {reason}", actor, proposal_id=None, reservation_key=""
            )

    def get(self, experiment_id: str) -> Experiment:
        """Raises NotFound."""
        with self._database.begin() as connection:
            return _load(connection, experiment_id)

    def list(self) -> builtins.list[Experiment]:
        """Newest first."""
        query = sa.select(ExperimentRow.__table__).order_by(ExperimentRow.opened_at.desc(), ExperimentRow.id)
        with self._database.begin() as connection:
            return [Experiment(**row._mapping) for row in connection.execute(query)]

    def history(self, experiment_id: str) -> builtins.list[ExperimentStep]:
        """The edges it passed, oldest first."""
        query = sa.select(ExperimentStepRow.__table__).where(ExperimentStepRow.experiment_id == experiment_id)
        with self._database.begin() as connection:
            rows = connection.execute(query.order_by(ExperimentStepRow.sequence))
            return [ExperimentStep(**row._mapping) for row in rows]

    def pass_inner(self, experiment: Experiment, after: Stage, cost: Amount, note: str, actor: str) -> Experiment:
        """Go on from where `experiment` says it stands, for at most `cost`, which is reserved until it is settled.

        Raises UserInputError for an edge that is not there, an outer one, or an experiment that has moved on since;
        BudgetExceeded when the cost does not fit.
        """
        with self._database.begin() as connection:
            _require(connection, experiment, after, Edge.INNER)
            key = f"edge:{experiment.id}:{experiment.sequence}"
            reserve_amount(connection, experiment.budget_id, key, cost)
            return self._move(connection, experiment, after, note, actor, proposal_id=None, reservation_key=key)

    def pass_outer(
        self, experiment: Experiment, after: Stage, proposal_id: str, note: str, *, cost: Amount = _FREE
    ) -> Experiment:
        """Pass an edge that persons approved. Raises as `pass_inner`, and ApprovalInvalid without such an approval."""
        with self._database.begin() as connection:
            _require(connection, experiment, after, Edge.OUTER)
            key = "" if cost == _FREE else f"edge:{experiment.id}:{experiment.sequence}"
            if key:
                reserve_amount(connection, experiment.budget_id, key, cost)
            deed = Deed(
                key=f"{experiment.id}:{experiment.sequence}",
                kind=EffectKind.NEXT_STAGE,
                payload=edge_payload(experiment, after, note),
                investigation_id=None,
                proposal_id=proposal_id,
            )
            proposal = use_approvals(connection, deed, self._database.clock())
            return self._move(
                connection, experiment, after, note, proposal.decided_by, proposal_id=proposal_id, reservation_key=key
            )

    def _move(
        self,
        connection: sa.Connection,
        experiment: Experiment,
        after: Stage,
        note: str,
        actor: str,
        *,
        proposal_id: str | None,
        reservation_key: str,
    ) -> Experiment:
        at = self._database.clock()
        iteration = experiment.iteration + ((experiment.stage, after) == (Stage.ITERATE, Stage.PLAN))
        values = {"stage": after, "iteration": iteration, "sequence": experiment.sequence + 1}
        connection.execute(sa.update(ExperimentRow).where(ExperimentRow.id == experiment.id).values(**values))
        step = ExperimentStep(
            experiment_id=experiment.id, sequence=experiment.sequence, before=experiment.stage, after=after,
            iteration=iteration, proposal_id=proposal_id, reservation_key=reservation_key, note=redact(note),
            actor=actor, at=at,
        )  # fmt: skip
        connection.execute(sa.insert(ExperimentStepRow).values(**vars(step)))
        if after is Stage.ENDED:
            close_budget(connection, experiment.budget_id)
        detail = {"edge": _name(experiment.stage, after), "iteration": iteration, "note": note}
        detail |= {"proposal": proposal_id or "", "reservation": reservation_key}
        subject = f"experiment:{experiment.id}"
        append_entry(connection, actor=actor, action="edge", subject=subject, detail=detail, evidence=(), at=at)
        return _load(connection, experiment.id)


def edge_payload(experiment: Experiment, after: Stage, note: str) -> Json:
    """What a proposal of an outer edge binds: this edge, at this place of the history, with this plan."""
    edge = _name(experiment.stage, after)
    return {"experiment": experiment.id, "sequence": experiment.sequence, "edge": edge, "note": note}


def _name(before: Stage, after: Stage) -> str:
    return f"{before.value}->{after.value}"


def _load(connection: sa.Connection, experiment_id: str, *, lock: bool = False) -> Experiment:
    query = sa.select(ExperimentRow.__table__).where(ExperimentRow.id == experiment_id)
    row = connection.execute(query.with_for_update() if lock else query).one_or_none()
    if row is None:
        raise NotFound(f"no experiment '{experiment_id}'", remedy="open it first")
    return Experiment(**row._mapping)


def _require(connection: sa.Connection, experiment: Experiment, after: Stage, edge: Edge) -> None:
    if _load(connection, experiment.id, lock=True) != experiment:
        raise UserInputError(f"experiment {experiment.id} has moved on", remedy="look where it stands now")
    if load_policy(connection, PolicyKind.HALT) is not None:
        raise NotPermitted("everything is halted", remedy="wait until an admin lifts it: lathe policy resume")
    if EDGES.get((experiment.stage, after)) is not edge:
        raise UserInputError(
            f"{_name(experiment.stage, after)} is no {edge.value} edge",
            remedy="one of: " + ", ".join(_name(*pair) for pair, kind in EDGES.items() if kind is edge),
        )
