"""The dual loop as a whole, in processes that are killed: outer edges by persons, inner ones by budget.

Shows RM2-7.18 and RM2-7.22.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from context_store import Store, open_store
from context_store.experiments import EDGES, Edge
from context_store.records import Amount, Experiment
from contracts.enums import ProposalState, Role, Stage
from contracts.errors import UserInputError
from loops.dual import DualLoop, Report, Standing

NOW = 1_000_000.0
SPENT = Amount(cpu_s=1.0, tokens=10)
COST = Amount(cpu_s=2.0, tokens=20)


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    with open_store(database_url, clock=lambda: NOW) as opened:
        yield opened


@dataclass(frozen=True, kw_only=True)
class Routine:
    """Analyses twice in each of two iterations, then ends."""

    store: Store

    def perform(self, experiment: Experiment) -> Report:
        straight = {
            Stage.PLAN: Stage.DEVELOP,
            Stage.DEVELOP: Stage.ANALYSE,
            Stage.ANALYSE: Stage.REVIEW,
            Stage.REVIEW: Stage.ITERATE,
        }
        after = straight.get(experiment.stage) or self._iterate(experiment)
        return Report(after=after, note=f"{experiment.stage} of {experiment.iteration}", spent=SPENT, cost=COST)

    def _iterate(self, experiment: Experiment) -> Stage:
        steps = self.store.experiments.history(experiment.id)
        again = [s for s in steps if s.before is Stage.ITERATE and s.iteration == experiment.iteration]
        if not [s for s in again if s.after is Stage.ANALYSE]:
            return Stage.ANALYSE
        return Stage.PLAN if experiment.iteration == 1 else Stage.ENDED


def drive(store: Store) -> Standing:
    return DualLoop(store, Routine(store=store), clock=lambda: NOW).run("x")


def open_x(store: Store, cpu_s: float = 100.0) -> None:
    store.experiments.open("x", "smaller warm-up", "ada", NOW, Amount(cpu_s=cpu_s, tokens=1000))


def approve_open(store: Store) -> int:
    waiting = store.proposals.list(ProposalState.OPEN)
    for proposal in waiting:
        store.proposals.approve(proposal.id, "ada", Role.REVIEWER, "go", NOW, proposal.bound_hash)
    return len(waiting)


def test_it_stops_before_every_outer_edge_and_nowhere_else(store: Store) -> None:
    open_x(store)
    standings = []
    while (standing := drive(store)) is Standing.WAITS_FOR_A_PERSON:
        standings.append(store.experiments.get("x").stage)
        assert drive(store) is Standing.WAITS_FOR_A_PERSON, "asking again changes nothing"
        assert approve_open(store) == 1
    assert standing is Standing.ENDED
    assert standings == [Stage.PLAN, Stage.ITERATE, Stage.PLAN]
    approvals = [activity.text for activity in store.activity.after(0) if activity.kind == "approval"]
    assert len(approvals) == 3


def test_without_a_person_it_analyses_until_the_budget_ends_and_leaves_its_recommendation(store: Store) -> None:
    open_x(store, cpu_s=5.5)
    assert drive(store) is Standing.WAITS_FOR_A_PERSON
    approve_open(store)
    assert drive(store) is Standing.OUT_OF_BUDGET
    assert store.experiments.get("x").stage is Stage.ITERATE
    *_, finding = [activity.text for activity in store.activity.after(0) if activity.kind == "finding"]
    assert "stops before analyse" in finding
    assert finding.endswith("iterate of 1")
    assert store.budgets.state("experiment:x").cpu_s_used <= 5.5


def test_a_declined_iteration_is_not_begun(store: Store) -> None:
    open_x(store)
    drive(store)
    (proposal,) = store.proposals.list(ProposalState.OPEN)
    store.proposals.reject(proposal.id, "ada", Role.REVIEWER, "too costly", NOW)
    assert drive(store) is Standing.DECLINED
    assert store.experiments.history("x") == []


def test_while_halted_it_rests_and_then_goes_on(store: Store) -> None:
    open_x(store)
    drive(store)
    approve_open(store)
    store.policies.halt("root", Role.ADMIN, "smoke", NOW)
    assert drive(store) is Standing.HALTED
    assert store.experiments.get("x").sequence == 0
    store.policies.resume("root", Role.ADMIN, "", NOW)
    assert drive(store) is Standing.WAITS_FOR_A_PERSON
    assert store.experiments.get("x").sequence == 7


def test_work_that_wants_a_wrong_edge_is_refused(store: Store) -> None:
    class Hasty:
        def perform(self, experiment: Experiment) -> Report:
            return Report(after=Stage.ITERATE, note="", spent=Amount(), cost=Amount())

    open_x(store)
    with pytest.raises(UserInputError, match="plan->iterate is no inner edge"):
        DualLoop(store, Hasty(), clock=lambda: NOW).run("x")


class Deadly:
    """Kills its process, as SIGKILL does, before the work of a stage (once its edge was passed) or after it."""

    def __init__(self, store: Store, moments: Path) -> None:
        self._routine, self._moments = Routine(store=store), moments

    def perform(self, experiment: Experiment) -> Report:
        if experiment.sequence % 4 == 2:
            self._die(f"{experiment.sequence} before")
        report = self._routine.perform(experiment)
        if experiment.sequence % 4 == 0:
            self._die(f"{experiment.sequence} after")
        return report

    def _die(self, moment: str) -> None:
        known = self._moments.read_text().splitlines() if self._moments.exists() else []
        if moment not in known:
            with self._moments.open("a") as file:
                file.write(f"{moment}\n")
            os.kill(os.getpid(), signal.SIGKILL)


def in_child(url: str, moments: Path) -> Standing | None:
    """How far a process of its own came; None when it was killed."""
    child = os.fork()
    if child == 0:
        try:
            with open_store(url, clock=lambda: NOW) as store:
                os._exit(list(Standing).index(DualLoop(store, Deadly(store, moments), clock=lambda: NOW).run("x")))
        finally:
            os._exit(99)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return None
    return list(Standing)[os.WEXITSTATUS(status)]


def test_killed_again_and_again_no_edge_is_passed_twice_or_without_its_permit(
    database_url: str, tmp_path: Path
) -> None:
    deaths = 0
    with open_store(database_url, clock=lambda: NOW) as store:
        open_x(store)
    while (standing := in_child(database_url, tmp_path / "moments")) is not Standing.ENDED:
        deaths += standing is None
        assert deaths < 60
        if standing is Standing.WAITS_FOR_A_PERSON:
            with open_store(database_url, clock=lambda: NOW) as store:
                assert approve_open(store) == 1
    with open_store(database_url, clock=lambda: NOW) as store:
        steps = store.experiments.history("x")
        assert deaths * 2 == len(steps) == 16
        assert [step.sequence for step in steps] == list(range(16))
        outer = [step for step in steps if EDGES[step.before, step.after] is Edge.OUTER]
        used = [a.used_by for p in store.proposals.list() for a in store.proposals.approvals(p.id)]
        assert sorted(used) == sorted(f"x:{step.sequence}" for step in outer)
        assert all(step.reservation_key for step in steps if step not in outer)
        assert len(store.ledger.list(subject="experiment:x")) == 16
        state = store.budgets.state("experiment:x")
        assert state.used.tokens <= 16 * 20
        assert not state.used.exceeds(state)
