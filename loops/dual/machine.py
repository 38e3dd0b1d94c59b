"""Two loops in one: the inner one goes on by itself while its budget lasts, the outer one waits for a person.

    plan =(person)=> develop -> analyse -> review -> iterate -> analyse ...
                                                     iterate =(person)=> plan ...  or  iterate -> ended

Where an experiment stands, which edges there are and what each of them needs is the store's (`store.experiments`);
here the work of a stage is done, what it spent is settled, and the next edge is asked for. After a crash the work of
the present stage is done again, so it has to be a function of what the store holds; an edge is passed once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from context_store import Store
from context_store.experiments import EDGES, Edge, edge_payload
from context_store.records import Amount, Experiment, NewProposal, Proposal
from contracts.enums import EffectKind, ProposalState, Stage
from contracts.errors import BudgetExceeded
from contracts.evidence import EvidenceRef

VALID_S = 7 * 24 * 3600.0  # how long a person may take
ACTOR = "loop:dual"
_TOLD = frozenset({Stage.ITERATE, Stage.ENDED})  # what is said when an experiment comes here


class Standing(StrEnum):
    """Why `run` returned."""

    MOVED = "moved"
    AT_WORK = "at_work"
    WAITS_FOR_A_PERSON = "waits_for_a_person"
    DECLINED = "declined"
    OUT_OF_BUDGET = "out_of_budget"
    HALTED = "halted"
    ENDED = "ended"


@dataclass(frozen=True, kw_only=True)
class Report:
    """What came of the work at a stage, and where to go on.

    `note`: the plan, the finding or the recommendation, for whoever has to decide; `spent`: by this work; `cost`: at
    most what the work at `after` will spend, reserved before it begins.
    """

    after: Stage
    note: str
    spent: Amount
    cost: Amount
    evidence: tuple[EvidenceRef, ...] = ()


class Work(Protocol):
    """Does what a stage is there for. May be asked again after a crash and then gives the same answer."""

    def perform(self, experiment: Experiment) -> Report | None:
        """None while something that was asked for is under way: ask again soon. May raise BudgetExceeded."""
        ...


class DualLoop:
    """Drives experiments to where a person is needed, the budget is spent, or the end."""

    def __init__(self, store: Store, work: Work, *, clock: Callable[[], float]) -> None:
        self._store = store
        self._work = work
        self._clock = clock

    def run(self, experiment_id: str) -> Standing:
        """Step until it does not move. Raises UserInputError when the work wants an edge that is not there."""
        while (standing := self.step(experiment_id)) is Standing.MOVED:
            pass
        return standing

    def step(self, experiment_id: str) -> Standing:
        """Do the work of the present stage and try to pass one edge."""
        experiment = self._store.experiments.get(experiment_id)
        if experiment.stage is Stage.ENDED:
            return Standing.ENDED
        if self._store.policies.halted() is not None:
            return Standing.HALTED
        try:
            report = self._work.perform(experiment)
        except BudgetExceeded as error:
            return self._out_of_budget(experiment, f"stops at {experiment.stage}: {error.message}")
        if report is None:
            return Standing.AT_WORK
        self._settle(experiment, report.spent)
        try:
            if EDGES.get((experiment.stage, report.after)) is Edge.OUTER:
                return self._ask(experiment, report)
            self._store.experiments.pass_inner(experiment, report.after, report.cost, report.note, ACTOR)
        except BudgetExceeded as error:
            return self._out_of_budget(experiment, f"stops before {report.after}: {error.message}. {report.note}")
        if report.after in _TOLD:
            self._tell(experiment, "finding", f"{experiment.title}: {report.note}")
        return Standing.MOVED

    def _out_of_budget(self, experiment: Experiment, text: str) -> Standing:
        self._tell(experiment, "finding", text)
        return Standing.OUT_OF_BUDGET

    def _settle(self, experiment: Experiment, spent: Amount) -> None:
        """The work was paid for by the edge that led to it."""
        steps = self._store.experiments.history(experiment.id)
        if steps and steps[-1].reservation_key:
            self._store.budgets.settle(
                steps[-1].reservation_key,
                cpu_s=spent.cpu_s,
                tokens=spent.tokens,
                usd=spent.usd,
                wall_s=spent.wall_s,
            )

    def _ask(self, experiment: Experiment, report: Report) -> Standing:
        proposal = self._proposal(experiment, report)
        if proposal.state is ProposalState.APPROVED:
            self._store.experiments.pass_outer(experiment, report.after, proposal.id, report.note, cost=report.cost)
            return Standing.MOVED
        if proposal.state is ProposalState.OPEN:
            return Standing.WAITS_FOR_A_PERSON
        return Standing.DECLINED

    def _proposal(self, experiment: Experiment, report: Report) -> Proposal:
        """The same one however often it is asked for; the first time it is told."""
        known = {each.id for each in self._store.proposals.list(ProposalState.OPEN)}
        proposal = self._store.proposals.put(
            NewProposal(
                investigation_id=None,
                kind=EffectKind.NEXT_STAGE,
                title=f"{experiment.title}: {experiment.stage} to {report.after}, iteration {experiment.iteration}",
                payload=edge_payload(experiment, report.after, report.note),
                diff="",
                base_state=f"experiment {experiment.id} after {experiment.sequence} steps",
                risk=f"what follows may spend what is left: {self._store.budgets.state(experiment.budget_id).left}",
                verification="its analysis is reported before the next iteration is asked for",
                evidence=(EvidenceRef(kind="experiment", id=experiment.id), *report.evidence),
                expires_at=self._clock() + VALID_S,
                owner=experiment.opened_by,
            )
        )
        if proposal.state is ProposalState.OPEN and proposal.id not in known:
            self._tell(experiment, "approval", f"waiting for a person: {proposal.title}. {report.note}")
        return proposal

    def _tell(self, experiment: Experiment, kind: str, text: str) -> None:
        self._store.activity.publish(kind, text, detail={"experiment": experiment.id})
