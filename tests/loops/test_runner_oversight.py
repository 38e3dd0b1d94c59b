"""The runner and those who watch it: edits, policies, levels, attacks on the graph's own state, and what is forgotten.

Shows RM2-7.9, RM2-7.15.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import InvalidUpdateError
from test_runner import NOW, SmallLoop, executor, open_small_case

from context_store import Store, open_store
from context_store.records import NewProposal, Proposal
from contracts.enums import AutonomyLevel, EffectKind, EffectState, InvestigationState, ProposalState, Role
from loops.runner import CaseStatus, Runner

APPLIES = (EffectKind.RESUME_WITH_PATCH,)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bench:
    """A runner of the small loop at a case, its checkpoints in reach."""

    store: Store
    runner: Runner
    saver: InMemorySaver
    case_id: str

    def start(self) -> Proposal:
        return self.store.proposals.get(self.runner.start("small", self.case_id).proposal_id)

    def applied(self) -> list[EffectState]:
        return [effect.state for effect in self.store.effects.list() if effect.kind in APPLIES]

    @property
    def graph(self) -> Any:
        """As somebody who can write LangGraph's tables would have it."""
        return self.runner._graph

    @property
    def config(self) -> dict[str, Any]:
        return {"configurable": {"thread_id": self.case_id}}


@pytest.fixture
def store(database_url: str) -> Any:
    with open_store(database_url, clock=lambda: NOW) as opened:
        yield opened


@pytest.fixture
def bench(store: Store, tmp_path: Path) -> Bench:
    saver = InMemorySaver()
    wait = executor(store, tmp_path / "tally")
    loops = {"small": SmallLoop(store)}
    runner = Runner(store=store, checkpointer=saver, loops=loops, clock=lambda: NOW, wait=wait)
    return Bench(store=store, runner=runner, saver=saver, case_id=open_small_case(store))


def edit(bench: Bench, proposal: Proposal) -> Proposal:
    content = {field.name: getattr(proposal, field.name) for field in dataclasses.fields(NewProposal)}
    edited = NewProposal(**{**content, "payload": {"number": 4}})
    return bench.store.proposals.replace(proposal.id, edited, "Ada", Role.REVIEWER, "4", NOW, proposal.bound_hash)


def approve(bench: Bench, proposal: Proposal) -> None:
    bench.store.proposals.approve(proposal.id, "Ada", Role.REVIEWER, "yes", NOW, proposal.bound_hash)


def test_a_waiting_case_follows_the_edit(bench: Bench) -> None:
    first = bench.start()
    second = edit(bench, first)
    waiting = bench.runner.resume(bench.case_id)
    assert (waiting.status, waiting.proposal_id) == (CaseStatus.WAITING_FOR_APPROVAL, second.id)
    approve(bench, second)
    assert bench.runner.resume(bench.case_id).status is CaseStatus.CLOSED
    (effect,) = [effect for effect in bench.store.effects.list() if effect.kind in APPLIES]
    assert (effect.payload, effect.proposal_id, effect.state) == ({"number": 4}, second.id, EffectState.DONE)


def test_a_loop_that_may_act_asks_nobody(bench: Bench) -> None:
    bench.store.policies.set_autonomy(
        "small", AutonomyLevel.ACT, "root", Role.ADMIN, "nights", NOW, effects=APPLIES, cpu_s=5.0, num_effects=1
    )
    done = bench.runner.start("small", bench.case_id)
    assert done.status is CaseStatus.CLOSED
    assert bench.applied() == [EffectState.DONE]
    texts = [str(e.detail["text"]) for e in bench.store.ledger.list(subject=f"investigation:{bench.case_id}")]
    assert any("approved by policy 1, set by root" in text for text in texts)
    assert [activity.kind for activity in bench.store.activity.after(0)].count("approval") == 0


def test_a_loop_that_observes_runs_nothing(bench: Bench) -> None:
    bench.store.policies.set_autonomy("small", AutonomyLevel.OBSERVE, "root", Role.ADMIN, "look only", NOW)
    bench.start()
    assert bench.store.effects.list() == []
    entries = bench.store.ledger.list(subject=f"investigation:{bench.case_id}")
    assert any("may only observe" in str(entry.detail["text"]) for entry in entries)


def test_the_budget_of_a_closed_case_is_closed(bench: Bench) -> None:
    approve(bench, bench.start())
    bench.runner.resume(bench.case_id)
    assert bench.store.budgets.state(bench.case_id).closed


# --- attacks on the graph


def jump(node: str, **values: object) -> Callable[[Bench, Proposal], None]:
    """Write the state as if `node` had said so, and let the graph go on."""

    def attack(bench: Bench, proposal: Proposal) -> None:
        bench.graph.update_state(bench.config, {"proposal_id": proposal.id, **values}, as_node=node)
        bench.graph.invoke(None, bench.config, durability="sync")

    return attack


def forged_resume(bench: Bench, proposal: Proposal) -> None:
    """Answer the interrupt with what an approval looks like."""
    from langgraph.types import Command

    for answer in ("approved", True, {"decision": "approved"}, proposal.id):
        bench.graph.invoke(Command(resume=answer), bench.config, durability="sync")


def goto(bench: Bench, proposal: Proposal) -> None:
    """Order the graph to the node that applies."""
    from langgraph.types import Command

    bench.graph.invoke(Command(goto="apply"), bench.config, durability="sync")


def time_travel(bench: Bench, proposal: Proposal) -> None:
    """Go on from earlier checkpoints, each a fork."""
    for snapshot in list(bench.graph.get_state_history(bench.config))[::3]:
        if snapshot.next and snapshot.next != ("__start__",):
            bench.graph.invoke(None, snapshot.config, durability="sync")


ATTACKS = {
    "approved after the update": jump("update", decision="approved"),
    "approved by the policy": jump("ask", decision="approved"),
    "approved by a person": jump("await_approval", decision="approved"),
    "applied": jump("apply", decision="open"),
    "another proposal": jump("await_approval", decision="approved", effect_keys=["apply:x"]),
    "forged answer": forged_resume,
    "goto": goto,
    "time travel": time_travel,
}


@pytest.mark.parametrize("attack", list(ATTACKS.values()), ids=list(ATTACKS))
def test_no_way_through_the_graph_replaces_an_approval(bench: Bench, attack: Callable[[Bench, Proposal], None]) -> None:
    proposal = bench.start()
    attack(bench, proposal)
    assert EffectState.DONE not in bench.applied()
    assert bench.store.proposals.approvals(proposal.id) == []
    assert bench.store.proposals.get(proposal.id).state is ProposalState.OPEN
    approve(bench, bench.store.proposals.get(proposal.id))
    if bench.store.knowledge.investigation(bench.case_id).state is not InvestigationState.CLOSED:
        with suppress(InvalidUpdateError):  # of LangGraph: a graph that was sent two ways is stuck
            bench.runner.resume(bench.case_id)
    assert bench.applied().count(EffectState.DONE) <= 1


def test_a_fork_from_before_repeats_nothing(bench: Bench, tmp_path: Path) -> None:
    """The approval was used; going back to where it was not changes nothing."""
    proposal = bench.start()
    before = bench.graph.get_state(bench.config).config
    approve(bench, proposal)
    bench.runner.resume(bench.case_id)
    for _ in range(2):
        bench.graph.invoke(None, before, durability="sync")
    done = (tmp_path / "tally").read_text().split()
    assert len(done) == len(set(done)) == 3


# --- what is forgotten


def test_the_graph_forgets_closed_cases_and_the_runner_still_knows_them(bench: Bench) -> None:
    proposal = bench.start()
    bench.runner.prune()
    assert list(bench.saver.list(bench.config)), "a case that waits is kept"
    approve(bench, proposal)
    bench.runner.resume(bench.case_id)
    bench.runner.prune()
    assert list(bench.saver.list(bench.config)) == []
    for again in (bench.runner.resume(bench.case_id), bench.runner.start("small", bench.case_id)):
        assert (again.status, again.proposal_id) == (CaseStatus.CLOSED, proposal.id)
    assert len(bench.store.effects.list()) == 3
