"""Experiments: outer edges are passed by persons only, inner ones within the budget only, others not at all.

Shows RM2-7.18.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import pytest

from context_store import Store, open_store
from context_store.experiments import EDGES, Edge, edge_payload
from context_store.records import Amount, Experiment, NewProposal
from contracts.enums import AutonomyLevel, EffectKind, Role, Stage
from contracts.errors import ApprovalInvalid, BudgetExceeded, LatheError, UserInputError

NOW = 10_000.0
COST = Amount(cpu_s=1.0)


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    with open_store(database_url, clock=lambda: NOW) as opened:
        yield opened


@pytest.fixture
def experiment(store: Store) -> Experiment:
    return store.experiments.open("x", "smaller warm-up", "ada", NOW, Amount(cpu_s=4.0))


def approved(store: Store, experiment: Experiment, after: Stage, note: str = "the plan") -> str:
    proposal = store.proposals.put(
        NewProposal(
            investigation_id=None, kind=EffectKind.NEXT_STAGE, title=note,
            payload=edge_payload(experiment, after, note),
            diff="", base_state="", risk="", verification="", evidence=(), expires_at=NOW + 100,
        )
    )  # fmt: skip
    store.proposals.approve(proposal.id, "ada", Role.REVIEWER, "go", NOW)
    return proposal.id


def begin(store: Store, experiment: Experiment) -> Experiment:
    proposal = approved(store, experiment, Stage.DEVELOP)
    return store.experiments.pass_outer(experiment, Stage.DEVELOP, proposal, "the plan")


def go(store: Store, experiment: Experiment, *stages: Stage) -> Experiment:
    for stage in stages:
        experiment = store.experiments.pass_inner(experiment, stage, COST, "", "loop:dual")
    return experiment


def test_a_whole_iteration(store: Store, experiment: Experiment) -> None:
    at = go(store, begin(store, experiment), Stage.ANALYSE, Stage.REVIEW, Stage.ITERATE, Stage.ANALYSE)
    assert (at.stage, at.iteration, at.sequence) == (Stage.ANALYSE, 1, 5)
    steps = store.experiments.history("x")
    assert [(step.before, step.after) for step in steps[:2]] == [
        (Stage.PLAN, Stage.DEVELOP),
        (Stage.DEVELOP, Stage.ANALYSE),
    ]
    assert [bool(step.proposal_id) for step in steps] == [True, False, False, False, False]
    assert [step.actor for step in steps[:2]] == ["ada", "loop:dual"]
    assert len(store.ledger.list(subject="experiment:x")) == 5


def test_the_next_iteration_needs_its_own_approval(store: Store, experiment: Experiment) -> None:
    at = go(store, begin(store, experiment), Stage.ANALYSE, Stage.REVIEW, Stage.ITERATE)
    with pytest.raises(UserInputError, match="no inner edge"):
        go(store, at, Stage.PLAN)
    at = store.experiments.pass_outer(at, Stage.PLAN, approved(store, at, Stage.PLAN), "the plan")
    assert (at.stage, at.iteration) == (Stage.PLAN, 2)
    first = store.experiments.history("x")[0].proposal_id
    assert first is not None
    with pytest.raises(ApprovalInvalid):
        store.experiments.pass_outer(at, Stage.DEVELOP, first, "the plan")


@pytest.mark.parametrize(("before", "after"), [pair for pair in product(Stage, Stage) if pair not in EDGES])
def test_what_is_no_edge_is_refused(store: Store, experiment: Experiment, before: Stage, after: Stage) -> None:
    """Neither way: not by budget, not by an approval."""
    at = experiment
    for stage in {Stage.PLAN: (), Stage.DEVELOP: ()}.get(before, _way(before)):
        at = go(store, at if at.sequence else begin(store, at), stage)
    if before is Stage.DEVELOP:
        at = begin(store, at)
    assert at.stage is before
    with pytest.raises(UserInputError, match="is no inner edge"):
        store.experiments.pass_inner(at, after, COST, "", "loop:dual")
    with pytest.raises(UserInputError, match="is no outer edge"):
        store.experiments.pass_outer(at, after, "pr-x", "")
    assert store.experiments.get("x") == at


def _way(stage: Stage) -> tuple[Stage, ...]:
    order = (Stage.ANALYSE, Stage.REVIEW, Stage.ITERATE, Stage.ENDED)
    return order[: order.index(stage) + 1] if stage in order else ()


def test_outer_edges_without_an_approval_of_exactly_this(store: Store, experiment: Experiment) -> None:
    other = store.experiments.open("y", "another", "ada", NOW, Amount())
    good = approved(store, experiment, Stage.DEVELOP)
    for proposal, note in (
        ("pr-none", "the plan"),
        (approved(store, other, Stage.DEVELOP), "the plan"),
        (good, "more"),
    ):
        with pytest.raises(ApprovalInvalid):
            store.experiments.pass_outer(experiment, Stage.DEVELOP, proposal, note)
    with pytest.raises(UserInputError, match="no inner edge"):
        go(store, experiment, Stage.DEVELOP)
    assert store.experiments.get("x").stage is Stage.PLAN
    with pytest.raises(UserInputError, match="no policy approves"):
        store.policies.set_autonomy(
            "dual", AutonomyLevel.EVOLVE, "root", Role.ADMIN, "all", NOW,
            effects=[EffectKind.NEXT_STAGE], num_effects=9,
        )  # fmt: skip


def test_inner_edges_stop_when_the_budget_is_spent(store: Store, experiment: Experiment) -> None:
    at = go(store, begin(store, experiment), Stage.ANALYSE, Stage.REVIEW, Stage.ITERATE, Stage.ANALYSE)
    with pytest.raises(BudgetExceeded):
        go(store, at, Stage.REVIEW)
    assert store.experiments.get("x") == at
    assert store.budgets.state(at.budget_id).cpu_s_used == 4.0


def test_an_edge_is_passed_once_by_whoever_comes_first(store: Store, experiment: Experiment) -> None:
    proposal = approved(store, experiment, Stage.DEVELOP)

    def attempt(_: int) -> bool:
        try:
            store.experiments.pass_outer(experiment, Stage.DEVELOP, proposal, "the plan")
        except LatheError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(8))) == 1
    assert len(store.experiments.history("x")) == 1
    assert set(EDGES.values()) == {Edge.OUTER, Edge.INNER}
