"""The one runner of all loops: the nodes of the LangGraph graph in `graph.py`, whose state holds ids only.

LangGraph is at-least-once: after a crash a node may run again. Every node is therefore idempotent: effects, proposals
and records have keys that follow from their content, and loops answer from what the store holds as measured.
The graph never acts on the world; it inserts effect requests that an executor carries out once (design section 6).
Whether something was approved is read from the store and never from the graph's own state, whoever wrote that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from agents.guidance import sum_up_of
from context_store import Store
from context_store.records import Effect, EffectRequest, Proposal
from contracts.enums import AutonomyLevel, EffectKind, EffectState, InvestigationState, ProposalState
from contracts.errors import BudgetExceeded, NotFound
from contracts.evidence import EvidenceRef
from loops.core import WALL_PER_CPU, WATCH_UNTIL, Applied, AwaitsPerson, EmptyCycle, Limits, Loop, Planned
from loops.graph import CaseState, build
from loops.journal import Entry, Journal

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.types import StateSnapshot

_FINISHED = frozenset({EffectState.DONE, EffectState.FAILED, EffectState.REFUSED})
_STEPS_PER_ROUND = 5  # graph steps; LangGraph's own default cap of 10,007 would hide an endless loop


def _nap() -> None:
    time.sleep(0.2)


class CaseStatus(StrEnum):
    """Where a case stands when the runner returns."""

    WAITING_FOR_APPROVAL = "waiting_for_approval"
    CLOSED = "closed"


@dataclass(frozen=True, kw_only=True)
class CaseProgress:
    """What `start` and `resume` return. `proposal_id` is "" when the case has none."""

    case_id: str
    status: CaseStatus
    proposal_id: str


class Runner:
    """Drives cases to the next point where a person is needed, or to their end.

    `limits_of`: case id -> limits, of loops whose cases take longer, or less, than `limits` allows.
    `wait` is called while effects are pending: it sleeps, or, in a process that is its own executor, carries them out.
    `checkpointer` is any LangGraph saver; its serializer is made strict (no classes are ever restored from it).
    """

    def __init__(
        self,
        *,
        store: Store,
        checkpointer: BaseCheckpointSaver[Any],
        loops: Mapping[str, Loop],
        limits: Limits | None = None,
        limits_of: Mapping[str, Callable[[str], Limits]] | None = None,
        clock: Callable[[], float] = time.time,
        wait: Callable[[], None] = _nap,
    ) -> None:
        self._store = store
        self._checkpointer = checkpointer
        self._loops = loops
        self._default_limits = limits or Limits()
        self._limits_of = limits_of or {}
        self._clock = clock
        self._wait = wait
        self._journal = Journal(store, clock)
        self._began = clock()
        self._graph = build(self, checkpointer)

    def start(self, loop: Loop | str, case_id: str) -> CaseProgress:
        """Begin the case, or go on with it when it was begun before. BudgetExceeded is a conclusion, not an error."""
        name = loop if isinstance(loop, str) else loop.name
        if name not in self._loops:
            raise NotFound(f"no loop is called {name}", remedy="choose one of: " + ", ".join(sorted(self._loops)))
        if self._snapshot(case_id).values or self._is_closed(case_id):
            return self.resume(case_id)
        project = self._store.knowledge.investigation(case_id).project_id
        limits = self._limits(name, case_id)
        self._store.budgets.open_share(case_id, limits.amount, self._store.budgets.of_project(project))
        return self._invoke(case_id, CaseState(loop=name, case_id=case_id, round=0))

    def resume(self, case_id: str) -> CaseProgress:
        """Go on after a crash, or once the proposal was decided. Raises NotFound when the case was never started."""
        snapshot = self._snapshot(case_id)
        if self._is_closed(case_id):
            return self._progress(case_id)
        if not snapshot.values:
            raise NotFound(f"case {case_id} was never started", remedy="start it first: lathe diagnose RUN")
        if snapshot.next != ("await_approval",):
            return self._invoke(case_id, None)
        proposal = self._current(snapshot.values["proposal_id"])
        if proposal.state == ProposalState.OPEN:
            return CaseProgress(case_id=case_id, status=CaseStatus.WAITING_FOR_APPROVAL, proposal_id=proposal.id)
        from langgraph.types import Command

        return self._invoke(case_id, Command(resume=proposal.id))

    def prune(self) -> None:
        """Forget the graph's own checkpoints of closed cases: what a case is worth keeping for lies in the store."""
        threads = {each.config["configurable"]["thread_id"] for each in self._checkpointer.list(None)}
        for case_id in filter(self._is_closed, threads):
            self._checkpointer.delete_thread(case_id)

    # --- the graph and its state --------------------------------------------------------------------------------

    def _config(self, case_id: str) -> RunnableConfig:
        try:
            limits = self._limits(self._store.knowledge.investigation(case_id).loop, case_id)
        except NotFound:
            limits = self._default_limits
        limit = _STEPS_PER_ROUND * (limits.max_rounds + 4)
        return {"configurable": {"thread_id": case_id}, "recursion_limit": limit}

    def _snapshot(self, case_id: str) -> StateSnapshot:
        return self._graph.get_state(self._config(case_id))

    def _invoke(self, case_id: str, graph_input: Any) -> CaseProgress:
        self._began = self._clock()
        self._graph.invoke(graph_input, self._config(case_id), durability="sync")
        return self._progress(case_id)

    def _progress(self, case_id: str) -> CaseProgress:
        status = CaseStatus.CLOSED if self._is_closed(case_id) else CaseStatus.WAITING_FOR_APPROVAL
        proposals = self._store.proposals.list(investigation_id=case_id)
        return CaseProgress(case_id=case_id, status=status, proposal_id=proposals[-1].id if proposals else "")

    def _is_closed(self, case_id: str) -> bool:
        try:
            return self._store.knowledge.investigation(case_id).state is InvestigationState.CLOSED
        except NotFound:
            return False

    def _current(self, proposal_id: str) -> Proposal:
        """The proposal, or what an edit made of it, as it is decided now."""
        proposal = self._store.proposals.current(proposal_id)
        if proposal.state == ProposalState.OPEN and self._clock() >= proposal.expires_at:
            return replace(proposal, state=ProposalState.EXPIRED)
        return proposal

    def _write(self, state: CaseState, action: str, text: str, **more: Any) -> None:
        step = f"{state['round']}.{action}"
        self._journal.write(
            Entry(case_id=state["case_id"], actor=f"loop:{state['loop']}", action=action, step=step, text=text, **more)
        )

    # --- nodes: propose, execute, measure -----------------------------------------------------------------------

    def recall(self, state: CaseState) -> CaseState:
        """Say what may be spent and when it stops; ask the store what is known not to work, before anything is new."""
        budget = self._store.budgets.state(state["case_id"])  # less than the limits where the project has less left
        granted = replace(self._limits(state["loop"], state["case_id"]), reruns=budget.reruns, cpu_s=budget.cpu_s)
        self._write(state, "limits", granted.sentence)
        question = self._loops[state["loop"]].recall(state["case_id"])
        found = self._store.negatives.search(question.text, project_id=question.project_id, limit=5)
        known = [negative for negative, _ in found]
        text = f"{len(known)} earlier negative results bear on this" if known else "nothing like this was stored before"
        refs = [EvidenceRef(kind="negative", id=str(negative.id)) for negative in known]
        self._write(state, "recall", text, evidence=refs)
        return CaseState()

    def propose(self, state: CaseState) -> CaseState:
        """The loop's next step, or its conclusion, or the cap that ends the search."""
        stopped = self._cap(state)
        if stopped:
            self._write(state, "propose", stopped)
            return CaseState(concluded=True, stopped=stopped, effect_keys=[])
        planned = self._loops[state["loop"]].propose(state["case_id"])
        this = CaseState(**{**state, "round": state["round"] + 1})
        self._write(this, "propose", planned.reason)
        if not isinstance(planned, Planned):
            return CaseState(concluded=True, stopped="", effect_keys=[], round=this["round"])
        if not self._store.policies.level(state["loop"]).includes(AutonomyLevel.PROPOSE):
            stopped = f"the {state['loop']} loop may only observe, so nothing was run"
            self._write(this, "observe", stopped)
            return CaseState(concluded=True, stopped=stopped, effect_keys=[], round=this["round"])
        self._store.knowledge.set_investigation(state["case_id"], round=this["round"])
        keys = [request.effect.key for request in planned.requests]
        return CaseState(concluded=False, effect_keys=keys, round=this["round"])

    def reserve(self, state: CaseState) -> CaseState:
        """Reserve the price of each request; those that no longer fit are dropped, and none at all ends the search."""
        reserved: list[str] = []
        message = ""
        timed = self._store.budgets.state(state["case_id"]).wall_s > 0.0
        for request in self._plan(state):
            key = request.effect.key
            cost = replace(request.cost, wall_s=WALL_PER_CPU * request.cost.cpu_s if timed else 0.0)
            try:
                self._store.budgets.reserve(state["case_id"], key, cost)
            except BudgetExceeded as error:
                message = error.message
            else:
                reserved.append(key)
        if reserved:
            return CaseState(effect_keys=reserved)
        self._write(state, "reserve", f"the budget is spent: {message}")
        return CaseState(concluded=True, stopped=f"the budget is spent: {message}", effect_keys=[])

    def execute(self, state: CaseState) -> CaseState:
        """Request the effects and wait until all are finished or time is up."""
        wanted = set(state["effect_keys"])
        for request in self._plan(state):
            if request.effect.key in wanted:
                self._store.effects.request(request.effect)
        limits = self._limits(state["loop"], state["case_id"])
        self._until_finished(state["effect_keys"], deadline=self._began + limits.wall_s)
        return CaseState()

    def measure(self, state: CaseState) -> CaseState:
        """Hand the finished effects to the loop."""
        effects = [self._store.effects.get(key) for key in state["effect_keys"]]
        try:
            text = self._loops[state["loop"]].measure(state["case_id"], effects)
        except AwaitsPerson:
            if not sum_up_of(self._store, state["case_id"]).stopped_by:
                raise
            text = "what a person was asked for is not waited for any longer"
        self._write(state, "measure", text)
        return CaseState(effect_keys=[])

    # --- nodes: update, approval, verify ------------------------------------------------------------------------

    def update(self, state: CaseState) -> CaseState:
        """Let the loop write down what it learned and, if it has one, its proposal."""
        case_id = state["case_id"]
        update = self._loops[state["loop"]].update(case_id, state.get("stopped", ""))
        self._write(state, "update", update.statement, kind="finding", evidence=update.evidence)
        if not self._store.knowledge.investigation(case_id).statement:
            self._store.knowledge.set_investigation(case_id, statement=update.statement)
        if update.proposal_id is None:
            return CaseState(proposal_id="")
        return CaseState(proposal_id=update.proposal_id)

    def ask(self, state: CaseState) -> CaseState:
        """A policy that lets the loop act approves the proposal; else a person is asked."""
        self._store.proposals.approve_by_policy(state["proposal_id"], state["loop"], self._clock())
        proposal = self._current(state["proposal_id"])
        if proposal.state == ProposalState.OPEN:
            waiting = InvestigationState.WAITING_FOR_APPROVAL
            self._store.knowledge.set_investigation(state["case_id"], state=waiting)
            self._write(state, "ask", f"waiting for a person: {proposal.title}", kind="approval")
        return CaseState(proposal_id=proposal.id, decision=proposal.state.value)

    def await_approval(self, state: CaseState) -> CaseState:
        """Stop here; nothing else may happen in this node. What was decided is read afterwards, not handed in."""
        from langgraph.types import interrupt

        interrupt({"proposal_id": state["proposal_id"]})
        proposal = self._current(state["proposal_id"])
        return CaseState(proposal_id=proposal.id, decision=proposal.state.value)

    def apply(self, state: CaseState) -> CaseState:
        """Request the effect, if it is approved. The executor checks and uses up the approval itself."""
        proposal = self._current(state["proposal_id"])
        state = CaseState(**{**state, "proposal_id": proposal.id})
        if proposal.state != ProposalState.APPROVED:
            return CaseState(proposal_id=proposal.id, decision=proposal.state.value)
        request = EffectRequest(
            key=_apply_key(state),
            kind=proposal.kind,
            payload=proposal.payload,
            investigation_id=state["case_id"],
            actor=f"loop:{state['loop']}",
            proposal_id=proposal.id,
        )
        self._store.effects.request(request)
        self._write(state, "apply", f"approved by {proposal.decided_by}: {proposal.title}")
        return CaseState(proposal_id=proposal.id, decision=ProposalState.APPROVED.value)

    def wait(self, state: CaseState) -> CaseState:
        """Wait for the effect, as long as the training takes; one that fails while it is watched is stopped."""
        key = _apply_key(state)
        if failed := self._failed_while_watched(state, key):
            self._write(state, "stop", f"stopped before its end: {failed}", kind="finding")
            stop = EffectRequest(
                key=f"stop:{key}",
                kind=EffectKind.STOP_RUN,
                payload={"run_id": self._store.effects.get(key).payload["run_id"]},
                investigation_id=state["case_id"],
                actor=f"loop:{state['loop']}",
            )
            self._store.effects.request(stop)
            self._until_finished([stop.key], deadline=None)
        self._until_finished([key], deadline=None)
        return CaseState()

    def verify(self, state: CaseState) -> CaseState:
        """Let the loop look whether the change held, or store why it was declined."""
        proposal = self._store.proposals.get(state["proposal_id"])
        approved = state["decision"] == ProposalState.APPROVED
        effect = self._store.effects.get(_apply_key(state)) if approved else None
        applied = Applied(proposal=proposal, effect=effect)
        verified = self._loops[state["loop"]].verify(state["case_id"], applied)
        self._write(state, "verify", verified.sentence, kind="finding")
        return CaseState(undo=verified.undo)

    def undo(self, state: CaseState) -> CaseState:
        """Take back what did not hold, and wait until that is done; a case that cannot be undone says so."""
        request = EffectRequest(
            key=f"undo:{_apply_key(state)}",
            kind=EffectKind.UNDO,
            payload={"effect": _apply_key(state)},
            investigation_id=state["case_id"],
            actor=f"loop:{state['loop']}",
        )
        self._store.effects.request(request)
        self._until_finished([request.key], deadline=None)
        effect = self._store.effects.get(request.key)
        is_undone = effect.state == EffectState.DONE
        text = "the change was taken back" if is_undone else f"the change could not be taken back: {effect.message}"
        self._write(state, "undo", text, kind="finding")
        return CaseState()

    def close(self, state: CaseState) -> CaseState:
        """Close the case. Raises EmptyCycle when neither a change nor a negative result was stored."""
        case_id = state["case_id"]
        changed = state.get("decision") == ProposalState.APPROVED and self._effect_done(_apply_key(state))
        if not changed and not self._store.negatives.list(investigation_id=case_id):
            raise EmptyCycle.of(state["loop"], case_id)
        self._store.budgets.close(case_id)
        self._write(state, "close", "closed")
        self._store.knowledge.set_investigation(case_id, state=InvestigationState.CLOSED)
        return CaseState()

    # --- what nodes share ---------------------------------------------------------------------------------------

    def _plan(self, state: CaseState) -> Sequence[Any]:
        """The plan of this round, asked again: until its effects are measured a loop gives the same answer."""
        planned = self._loops[state["loop"]].propose(state["case_id"])
        return planned.requests if isinstance(planned, Planned) else ()

    def _cap(self, state: CaseState) -> str:
        """What ends the search whatever the loop would do next: a person's word, or a limit; "" for nothing."""
        if person := sum_up_of(self._store, state["case_id"]).stopped_by:
            return f"{person} asked to stop"
        limits = self._limits(state["loop"], state["case_id"])
        if state["round"] >= limits.max_rounds:
            return f"stopped after {limits.max_rounds} {limits.unit}"
        if self._clock() - self._began > limits.wall_s:
            return f"stopped after {limits.wall_s:.0f} s"
        return ""

    def _limits(self, loop: str, case_id: str) -> Limits:
        own = self._limits_of.get(loop)
        return self._default_limits if own is None else own(case_id)

    def _until_finished(self, keys: Sequence[str], *, deadline: float | None) -> None:
        """Return when every effect is finished; past the deadline those that nobody began are refused."""
        while any(effect.state not in _FINISHED for effect in self._effects(keys)):
            if deadline is not None and self._clock() > deadline:
                for effect in self._effects(keys):
                    if effect.state == EffectState.REQUESTED:
                        self._store.effects.refuse(effect.key, "the case's time was up before it began")
                return
            self._wait()

    def _failed_while_watched(self, state: CaseState, key: str) -> str:
        """What the loop says against the change once it has run up to `watch_until`; "" when it may go on."""
        while (effect := self._store.effects.get(key)).state not in _FINISHED and WATCH_UNTIL in effect.payload:
            newest = self._store.runs.segments(effect.payload["run_id"])[-1]
            if newest.number > effect.payload["source_segment"] and newest.last_step >= effect.payload[WATCH_UNTIL]:
                applied = Applied(proposal=self._store.proposals.get(state["proposal_id"]), effect=effect)
                looked = self._loops[state["loop"]].verify(state["case_id"], applied)
                return looked.sentence if looked.undo else ""
            self._wait()
        return ""

    def _effects(self, keys: Sequence[str]) -> list[Effect]:
        return [self._store.effects.get(key) for key in keys]

    def _effect_done(self, key: str) -> bool:
        return self._store.effects.get(key).state == EffectState.DONE


def _apply_key(state: CaseState) -> str:
    return f"apply:{state['proposal_id']}"
