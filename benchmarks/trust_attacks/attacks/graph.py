"""Whoever can write LangGraph's state: jumps, gotos, forged answers, forks and time travel, tables written by hand."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
from langgraph.errors import InvalidUpdateError
from langgraph.types import Command

from benchmarks.trust_attacks.kit import Kit
from benchmarks.trust_parts.growth import LongLoop
from context_store.records import Proposal
from contracts.enums import InvestigationState
from loops.core import Limits, Update
from loops.runner import Runner

_NODES = (
    "recall", "propose", "reserve", "execute", "measure", "update", "ask", "await_approval", "apply", "wait", "verify",
    "undo",
)  # fmt: skip
_STATE = {"loop": "long", "concluded": True, "stopped": "", "effect_keys": [], "undo": False}
_TABLES: dict[str, str] = {
    "a copy of the thread": "INSERT INTO langgraph.checkpoints SELECT 'copy-' || thread_id, checkpoint_ns, "
    "checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata FROM langgraph.checkpoints WHERE thread_id = %s",
    "no writes": "DELETE FROM langgraph.checkpoint_writes WHERE thread_id = %s",
    "the word approved everywhere": "UPDATE langgraph.checkpoints SET checkpoint = replace(checkpoint::text, "
    "'\"open\"', '\"approved\"')::jsonb WHERE thread_id = %s",
    "the word approved in the blobs": "UPDATE langgraph.checkpoint_blobs SET type = 'msgpack', "
    "blob = '\\xa8617070726f766564' WHERE channel = 'decision' AND thread_id = %s",
    "no checkpoint but the first": "DELETE FROM langgraph.checkpoints c WHERE thread_id = %s AND checkpoint_id <> "
    "(SELECT min(checkpoint_id) FROM langgraph.checkpoints d WHERE d.thread_id = c.thread_id)",
}
VARIANTS: dict[str, Any] = {
    **{f"as if {node} had said approved": ("jump", node) for node in _NODES},
    **{f"goto {node}": ("goto", node) for node in (*_NODES, "close")},
    **{f"answered {answer!r}": ("answer", answer) for answer in ("approved", True, {"decision": "approved"}, "", 1)},
    **{f"going on from checkpoint {number}": ("travel", number) for number in range(8)},
    **{f"a fork of checkpoint {number} that says approved": ("fork", number) for number in range(8)},
    **{f"tables: {name}": ("tables", sql) for name, sql in _TABLES.items()},
    **{f"after its end, from checkpoint {number}": ("after", number) for number in range(0, 12, 2)},
}


class AskingLoop(LongLoop):
    """Finds nothing to try and proposes a message."""

    def __init__(self, kit: Kit) -> None:
        super().__init__(kit.store, 0)
        self.kit, self.payload = kit, {"url": kit.world.inbox.url, "text": kit.text()}

    def update(self, case_id: str, stopped: str) -> Update:
        proposal = self.kit.propose(payload=self.payload, title="tell", base_state="as it is")
        return Update(statement="somebody should know", evidence=(), proposal_id=proposal.id)


class _Bench:
    def __init__(self, kit: Kit) -> None:
        loop = AskingLoop(kit)
        self.kit = kit
        self.runner = Runner(
            store=kit.store,
            checkpointer=kit.world.lathe.checkpointer(),
            loops={"long": loop},
            limits=Limits(wall_s=5.0),
            wait=kit.settle,
        )
        self.proposal = kit.store.proposals.get(self.runner.start("long", kit.case_id).proposal_id)

    @property
    def graph(self) -> Any:
        return self.runner._graph

    @property
    def config(self) -> dict[str, Any]:
        return {"configurable": {"thread_id": self.kit.case_id}, "recursion_limit": 40}

    def history(self) -> list[Any]:
        return list(self.graph.get_state_history(self.config))

    def approve(self) -> None:
        """Somebody really does; it may be done once from now on."""
        if self.kit.approve(self.proposal).is_success:
            self.runner.resume(self.kit.case_id)
            self.kit.settle()


def control(kit: Kit) -> bool:
    bench = _Bench(kit)
    waits = kit.store.knowledge.investigation(kit.case_id).state is InvestigationState.WAITING_FOR_APPROVAL
    bench.approve()
    return waits and kit.is_done(bench.proposal)


def attack(kit: Kit, variant: tuple[str, Any]) -> object:
    what, value = variant
    bench = _Bench(kit)
    text = str(bench.proposal.payload["text"])
    if what == "after":
        bench.approve()
    _ignoring_langgraph(lambda: _ATTACKS[what](bench, bench.proposal, value))
    kit.settle()
    if what == "after":
        return kit.world.inbox.count(text) != 1
    return kit.world.inbox.count(text) != 0


def _jump(bench: _Bench, proposal: Proposal, node: str) -> None:
    state = {**_STATE, "case_id": bench.kit.case_id, "round": 1, "proposal_id": proposal.id, "decision": "approved"}
    bench.graph.update_state(bench.config, state, as_node=node)
    bench.graph.invoke(None, bench.config, durability="sync")


def _goto(bench: _Bench, proposal: Proposal, node: str) -> None:
    order = Command(goto=node, update={"decision": "approved", "proposal_id": proposal.id})
    bench.graph.invoke(order, bench.config, durability="sync")


def _answer(bench: _Bench, proposal: Proposal, answer: object) -> None:
    bench.graph.invoke(Command(resume=answer), bench.config, durability="sync")


def _travel(bench: _Bench, proposal: Proposal, number: int) -> None:
    history = bench.history()
    if number < len(history):
        bench.graph.invoke(None, history[number].config, durability="sync")


def _fork(bench: _Bench, proposal: Proposal, number: int) -> None:
    history = bench.history()
    if number < len(history):
        changes = {"decision": "approved", "proposal_id": proposal.id}
        config = bench.graph.update_state(history[number].config, changes, as_node="await_approval")
        bench.graph.invoke(None, config, durability="sync")


def _tables(bench: _Bench, proposal: Proposal, sql: str) -> None:
    with psycopg.connect(bench.kit.world.place.url, autocommit=True) as connection:
        connection.execute(sql, [bench.kit.case_id])
    for thread in (bench.kit.case_id, f"copy-{bench.kit.case_id}"):
        config = {"configurable": {"thread_id": thread}}
        if bench.graph.get_state(config).values:
            bench.graph.invoke(Command(resume="approved"), config, durability="sync")


def _ignoring_langgraph(action: Callable[[], object]) -> None:
    """A graph that was sent two ways, or into a node that has nothing to work on, stops; that is its own affair."""
    with suppress(InvalidUpdateError, KeyError, ValueError, AssertionError):
        action()


_ATTACKS: dict[str, Callable[[_Bench, Proposal, Any], None]] = {
    "jump": _jump, "goto": _goto, "answer": _answer, "travel": _travel, "fork": _fork, "tables": _tables,
    "after": _travel,
}  # fmt: skip
