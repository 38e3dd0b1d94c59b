"""What a hundred rounds of a loop leave in the database, once the case is closed and its graph is forgotten.

Every round requests an effect, which an executor claims and completes, and stores a negative result; the last one
proposes a change that a person approves. The runner forgets the graph's checkpoints as the worker makes it do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.place import place
from context_store import Store
from context_store.records import Amount, Effect, EffectRequest, NegativeResult, NewProposal, NewRun, Project
from contracts.enums import EffectKind, EffectState, Role, RunRole, SignalStrength
from contracts.evidence import EvidenceRef
from control_plane.wiring import Lathe
from loops.core import (
    Applied,
    Charter,
    Conclusion,
    Limits,
    Link,
    LoopClass,
    Planned,
    Question,
    Request,
    Update,
    Verified,
)
from loops.runner import CaseStatus, Runner

CASE = "case-long"
_EXPIRES = 4e9


class LongLoop:
    """One effect and one negative result a round, then a proposal."""

    name = "long"
    charter = Charter(
        loop_class=LoopClass.DEBUG,
        broken_links=(Link.EXECUTE,),
        why_broken="it takes too long",
        closes_at="many small runs",
        signal=SignalStrength.PAIRED_RERUN,
    )

    def __init__(self, store: Store, rounds: int) -> None:
        self._store, self._rounds = store, rounds

    def recall(self, case_id: str) -> Question:
        return Question(text="a longer warm-up", project_id=None)

    def propose(self, case_id: str) -> Planned | Conclusion:
        number = len(self._store.negatives.list(investigation_id=case_id))
        if number == self._rounds:
            return Conclusion(reason="all were tried")
        effect = EffectRequest(
            key=f"{case_id}:{number}",
            kind=EffectKind.DIAGNOSTIC_RUN,
            payload={"number": number, "overrides": {f"optim.group_{number}.lr": 1e-3 / (number + 1)}},
            investigation_id=case_id,
            actor="loop:long",
        )
        return Planned(requests=(Request(effect=effect, cost=Amount(cpu_s=1.0, reruns=1)),), reason=f"try {number}")

    def measure(self, case_id: str, effects: Sequence[Effect]) -> str:
        for effect in effects:
            number = effect.payload["number"]
            self._store.negatives.add(
                NegativeResult(
                    claim=f"learning rate {number} is to blame", intervention="another one", context={"try": number},
                    expected="the loss falls", observed="it rises", reason_class="tried", reason="it still rises",
                    evidence=(EvidenceRef(kind="run", id="r"),), reopen_if="", investigation_id=case_id,
                    actor="loop:long",
                )
            )  # fmt: skip
        return "it does not help"

    def update(self, case_id: str, stopped: str) -> Update:
        proposal = self._store.proposals.put(
            NewProposal(
                investigation_id=case_id, kind=EffectKind.NOTIFY, title="tell somebody",
                payload={"url": "http://127.0.0.1:9/", "text": "it rises"}, diff="", base_state="as it is",
                risk="none", verification="look", evidence=(), expires_at=_EXPIRES,
            )
        )  # fmt: skip
        return Update(statement="none of them helps", evidence=(), proposal_id=proposal.id)

    def verify(self, case_id: str, applied: Applied) -> Verified:
        return Verified(sentence="told")


def carry_out(store: Store) -> Callable[[], None]:
    """The executor's part, without anything to do."""

    def step() -> None:
        effect = store.effects.claim("benchmark", tuple(EffectKind), 60.0, 0.0)
        if effect is not None:
            store.effects.complete(effect.key, {"cpu_s": 0.5, "run_id": f"rr-{effect.key}", "last_step": 40})

    return step


def size_of(url: str) -> int:
    """Bytes of all tables with their indexes, without what is only waiting to be used again."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM FULL")
        row = connection.execute(
            "SELECT sum(pg_total_relation_size(oid)) FROM pg_class "
            "WHERE relkind = 'r' AND relnamespace::regnamespace::text IN ('public', 'langgraph')"
        ).fetchone()
        assert row is not None
        return int(row[0])


def measure(folder: Path, rounds: int = 100) -> dict[str, Any]:
    with place(folder, durable=False) as found, Lathe.open(found.settings) as lathe:
        store, saver = lathe.store, lathe.checkpointer()
        store.projects.put(Project(id="p", path="/nowhere"))
        store.runs.create(NewRun(id="r", project_id="p", name="r", role=RunRole.TRAINING, folder="/nowhere"))
        store.knowledge.open_investigation(CASE, "r", [], title="a long case", at=0.0)
        before = size_of(found.url)
        runner = Runner(
            store=store,
            checkpointer=saver,
            loops={"long": LongLoop(store, rounds)},
            limits=Limits(max_rounds=rounds + 1, reruns=rounds + 1),
            wait=carry_out(store),
        )
        begun = runner.start("long", CASE)
        proposal = store.proposals.get(begun.proposal_id)
        store.proposals.approve(proposal.id, "ada", Role.REVIEWER, "tell them", 0.0, proposal.bound_hash)
        assert runner.resume(CASE).status is CaseStatus.CLOSED
        unpruned = size_of(found.url) - before
        runner.prune()
        pruned = size_of(found.url) - before
        done = sum(effect.state is EffectState.DONE for effect in store.effects.list())
    assert done == rounds + 1, f"{done} of {rounds + 1} effects were carried out"
    return {
        "state_growth_mb": round(pruned / 2**20, 2),
        "state_growth_unpruned_mb": round(unpruned / 2**20, 2),
        "state_growth_rounds": rounds,
    }
