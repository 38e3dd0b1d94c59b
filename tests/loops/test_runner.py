"""The runner on a loop of few lines: every step once, whatever dies when; caps; and the contract it enforces."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

import psycopg
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from psycopg.rows import dict_row

from agents.guidance import Word, give
from context_store import Store, open_store
from context_store.records import Amount, Effect, EffectRequest, NegativeResult, NewProposal, NewRun, Project
from contracts.enums import EffectKind, EffectState, InvestigationState, Role, RunRole, SignalStrength
from contracts.errors import NotFound, UserInputError
from contracts.evidence import EvidenceRef
from loops.core import (
    Applied,
    Charter,
    Conclusion,
    EmptyCycle,
    Limits,
    Link,
    LoopClass,
    Planned,
    Question,
    Request,
    Update,
    Verified,
)
from loops.debug.loop import DebugLoop
from loops.runner import CaseStatus, Runner

NOW = 1_000_000.0
CHARTER = Charter(
    loop_class=LoopClass.DEBUG,
    broken_links=(Link.EXECUTE,),
    why_broken="it takes too long",
    closes_at="two small runs",
    signal=SignalStrength.PAIRED_RERUN,
)


class SmallLoop:
    """Runs two effects, one after the other, and proposes a third."""

    name = "small"
    charter = CHARTER

    def __init__(self, store: Store, *, learns: bool = True, proposes: bool = True) -> None:
        self._store, self._learns, self._proposes = store, learns, proposes

    def recall(self, case_id: str) -> Question:
        return Question(text="small things", project_id=None)

    def propose(self, case_id: str) -> Planned | Conclusion:
        measured = self._store.negatives.list(investigation_id=case_id)
        if len(measured) == 2 or not self._learns:
            return Conclusion(reason="both were tried")
        payload = {"number": len(measured)}
        effect = EffectRequest(
            key=f"{case_id}:{len(measured)}",
            kind=EffectKind.DIAGNOSTIC_RUN,
            payload=payload,
            investigation_id=case_id,
            actor="loop:small",
        )
        return Planned(requests=(Request(effect=effect, cost=Amount(cpu_s=10.0, reruns=1)),), reason=f"try {payload}")

    def measure(self, case_id: str, effects: Sequence[Effect]) -> str:
        for effect in effects:
            self._note(case_id, f"{effect.payload['number']} does not help")
        return "it does not help"

    def update(self, case_id: str, stopped: str) -> Update:
        if not self._proposes:
            return Update(statement=stopped or "nothing to do", evidence=())
        proposal = self._store.proposals.put(
            NewProposal(
                investigation_id=case_id,
                kind=EffectKind.RESUME_WITH_PATCH,
                title="do the third",
                payload={"number": 3},
                diff="",
                base_state="as it is",
                risk="none",
                verification="look",
                evidence=(),
                expires_at=NOW + 1e6,
            )
        )
        return Update(statement="the third remains", evidence=(), proposal_id=proposal.id)

    def verify(self, case_id: str, applied: Applied) -> Verified:
        done = applied.effect is not None and applied.effect.state is EffectState.DONE
        return Verified(sentence="it held" if done else "it was not done")

    def _note(self, case_id: str, text: str) -> None:
        self._store.negatives.add(
            NegativeResult(
                claim=text, intervention="a try", context={}, expected="help", observed="none", reason_class="tried",
                reason=text, evidence=(EvidenceRef(kind="run", id="r"),), reopen_if="", investigation_id=case_id,
                actor="loop:small",
            )
        )  # fmt: skip


def open_small_case(store: Store) -> str:
    store.projects.put(Project(id="p", path="/nowhere"))
    store.runs.create(NewRun(id="r", project_id="p", name="r", role=RunRole.TRAINING, folder="/nowhere"))
    return store.knowledge.open_investigation("case-small", "r", [], title="a small case", at=NOW).id


def executor(store: Store, tally: Path) -> Callable[[], None]:
    """Carries out one effect and leaves a mark, before it is complete, of having done so."""

    def carry_out() -> None:
        effect = store.effects.claim("worker", tuple(EffectKind), 0.0, NOW)
        if effect is not None:
            with tally.open("a") as file:
                file.write(f"{effect.key}\n")
            store.effects.complete(effect.key, {"cpu_s": 1.0})

    return carry_out


def small_runner(store: Store, tally: Path, *, limits: Limits | None = None, **loop: bool) -> Runner:
    small = SmallLoop(store, **loop)
    return Runner(
        store=store,
        checkpointer=InMemorySaver(),
        loops={"small": small},
        limits=limits,
        clock=lambda: NOW,
        wait=executor(store, tally),
    )


class DyingSaver(PostgresSaver):
    """Saves one checkpoint and kills its process, as SIGKILL would, when the second is to be saved."""

    saved: ClassVar[list[int]] = []  # of the process: LangGraph works on copies of a saver

    def put(self, *arguments: object, **named: object) -> object:  # type: ignore[override]
        if self.saved:
            os.kill(os.getpid(), signal.SIGKILL)
        self.saved.append(1)
        return super().put(*arguments, **named)  # type: ignore[arg-type]


def test_killed_in_every_node_nothing_is_done_twice(database_url: str, tmp_path: Path) -> None:
    """A process that dies after each node's work and before its checkpoint; each next one goes on."""
    tally = tmp_path / "tally"
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA langgraph")
    with _saver(database_url, PostgresSaver) as saver:
        saver.setup()
    deaths = 0
    while (status := _in_child(lambda: _drive(database_url, tally))) != CaseStatus.CLOSED:
        deaths += status is None
        assert deaths < 40
        if status == CaseStatus.WAITING_FOR_APPROVAL:
            with open_store(database_url, clock=lambda: NOW) as store:
                (proposal,) = store.proposals.list()
                store.proposals.approve(proposal.id, "Ada", Role.REVIEWER, "yes", NOW)
    assert deaths >= 14  # one after each node that ran
    with open_store(database_url, clock=lambda: NOW) as store:
        keys = [effect.key for effect in store.effects.list()]
        assert sorted(tally.read_text().split()) == sorted(keys)
        assert len(keys) == len(set(keys)) == 3
        assert len(store.negatives.list(investigation_id="case-small")) == 2
        steps = [(e.action, e.detail["step"]) for e in store.ledger.list(subject="investigation:case-small")]
        assert len(steps) == len(set(steps))
        assert store.budgets.state("case-small").reruns_used == 2
        assert store.knowledge.investigation("case-small").state is InvestigationState.CLOSED


def _saver(url: str, kind: type[PostgresSaver]) -> PostgresSaver:
    connection = psycopg.connect(
        url, autocommit=True, prepare_threshold=0, row_factory=dict_row, options="-c search_path=langgraph"
    )
    return _Closing(kind, connection)  # type: ignore[return-value]


class _Closing:
    """A saver whose connection ends with the block."""

    def __init__(self, kind: type[PostgresSaver], connection: psycopg.Connection[dict[str, object]]) -> None:
        self._saver, self._connection = kind(connection), connection  # type: ignore[arg-type]

    def __enter__(self) -> PostgresSaver:
        return self._saver

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def _drive(url: str, tally: Path) -> CaseStatus:
    with open_store(url, clock=lambda: NOW) as store, _saver(url, DyingSaver) as saver:
        case_id = open_small_case(store)
        runner = Runner(
            store=store,
            checkpointer=saver,
            loops={"small": SmallLoop(store)},
            clock=lambda: NOW,
            wait=executor(store, tally),
        )
        return runner.start("small", case_id).status


def _in_child(work: Callable[[], CaseStatus]) -> CaseStatus | None:
    """The child's result, None when it was killed."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(list(CaseStatus).index(work()))
        finally:
            os._exit(99)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return None
    assert os.WEXITSTATUS(status) < len(CaseStatus), "the child failed"
    return list(CaseStatus)[os.WEXITSTATUS(status)]


def test_it_waits_for_the_decision_and_then_closes(store: Store, tmp_path: Path) -> None:
    case_id = open_small_case(store)
    runner = small_runner(store, tmp_path / "tally")
    begun = runner.start("small", case_id)
    assert begun.status is CaseStatus.WAITING_FOR_APPROVAL
    assert runner.start("small", case_id) == begun
    store.proposals.approve(begun.proposal_id, "Ada", Role.REVIEWER, "yes", NOW)
    assert runner.resume(case_id).status is CaseStatus.CLOSED
    assert runner.resume(case_id).status is CaseStatus.CLOSED
    kinds = [activity.kind for activity in store.activity.after(0)]
    assert kinds.count("approval") == 1
    assert {"progress", "finding"} <= set(kinds)


def test_a_declined_proposal_is_not_applied(store: Store, tmp_path: Path) -> None:
    case_id = open_small_case(store)
    runner = small_runner(store, tmp_path / "tally")
    begun = runner.start("small", case_id)
    store.proposals.reject(begun.proposal_id, "Ada", Role.REVIEWER, "no", NOW)
    assert runner.resume(case_id).status is CaseStatus.CLOSED
    assert [e.kind for e in store.effects.list()] == [EffectKind.DIAGNOSTIC_RUN] * 2


def test_a_cycle_that_leaves_nothing_behind_is_invalid(store: Store, tmp_path: Path) -> None:
    """Shows R801-1.2: neither a stored change nor a stored negative result."""
    with pytest.raises(EmptyCycle):
        small_runner(store, tmp_path / "tally", learns=False, proposes=False).start("small", open_small_case(store))


@pytest.mark.parametrize(
    ("limits", "words"),
    [(Limits(max_rounds=1), "stopped after 1 rounds"), (Limits(cpu_s=10.5), "budget"), (Limits(reruns=1), "budget")],
)
def test_caps_end_the_search(store: Store, tmp_path: Path, limits: Limits, words: str) -> None:
    """Reserved before it is requested: what does not fit is never asked for."""
    case_id = open_small_case(store)
    small_runner(store, tmp_path / "tally", limits=limits, proposes=False).start("small", case_id)
    assert len(store.effects.list()) == 1
    texts = " ".join(str(entry.detail["text"]) for entry in store.ledger.list(subject=f"investigation:{case_id}"))
    assert words in texts


def test_unknown_cases_and_loops_are_named(store: Store, tmp_path: Path) -> None:
    runner = small_runner(store, tmp_path / "tally")
    with pytest.raises(NotFound, match="never started"):
        runner.resume("case-other")
    with pytest.raises(NotFound, match="no loop is called big"):
        runner.start("big", "case-other")


def test_a_loop_says_which_link_it_repairs() -> None:
    """Shows R801-1.4: a charter without its reasons is refused, and the debug loop has one."""
    assert DebugLoop.charter.closes_at
    with pytest.raises(UserInputError, match="charter"):
        Charter(
            loop_class=LoopClass.DEBUG,
            broken_links=(),
            why_broken="",
            closes_at="",
            signal=SignalStrength.SELF_RATING,
        )


def test_a_persons_stop_holds_for_every_loop(store: Store, tmp_path: Path) -> None:
    case_id = open_small_case(store)
    give(store, case_id, Word.STOP, "", actor="ada", at=NOW)
    assert small_runner(store, tmp_path / "tally").start("small", case_id).status is CaseStatus.WAITING_FOR_APPROVAL
    assert store.effects.list() == []
    said = [each.text for each in store.activity.after(0, investigation_id=case_id)]
    assert "ada asked to stop" in " ".join(said)
    assert store.knowledge.investigation(case_id).statement == "the third remains"
