"""The graph that drives every loop: which node follows which, and its state.

recall -> propose -> reserve -> execute -> measure -> (propose | update)
update -> (ask -> (apply | await_approval) | close), await_approval -> (apply | verify)
apply -> wait -> verify -> (undo -> close | close)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypedDict

from contracts.enums import ProposalState

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph

_NODES = (
    "recall", "propose", "reserve", "execute", "measure",
    "update", "ask", "await_approval", "apply", "wait", "verify", "undo", "close",
)  # fmt: skip


class CaseState(TypedDict, total=False):
    """The graph's state: ids and counters, nothing that could grow or go stale."""

    loop: str
    case_id: str
    round: int
    effect_keys: list[str]
    concluded: bool
    stopped: str
    proposal_id: str
    decision: str  # what the store said last; nothing is done because of it without asking the store again
    undo: bool


def build(runner: object, checkpointer: BaseCheckpointSaver[Any]) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The compiled graph; each node is the method of `runner` with its name."""
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
    from langgraph.graph import END, START, StateGraph

    checkpointer.serde = JsonPlusSerializer(allowed_msgpack_modules=None)
    graph: StateGraph[CaseState, None, CaseState, CaseState] = StateGraph(CaseState)
    for name in _NODES:
        graph.add_node(name, getattr(runner, name))
    graph.add_edge(START, "recall")
    graph.add_edge("recall", "propose")
    graph.add_conditional_edges("propose", _concluded_or("reserve"), ["update", "reserve"])
    graph.add_conditional_edges("reserve", _concluded_or("execute"), ["update", "execute"])
    for before, after in (("execute", "measure"), ("measure", "propose"), ("wait", "verify")):
        graph.add_edge(before, after)
    graph.add_conditional_edges("update", _has_proposal, ["ask", "close"])
    for before, after in (("ask", "apply"), ("await_approval", "apply"), ("apply", "wait")):
        graph.add_conditional_edges(before, _decided(after), [after, "await_approval", "verify"])
    graph.add_conditional_edges("verify", _to_be_undone, ["undo", "close"])
    graph.add_edge("undo", "close")
    graph.add_edge("close", END)
    return graph.compile(checkpointer=checkpointer)


def _concluded_or(otherwise: str) -> Callable[[CaseState], str]:
    return lambda state: "update" if state["concluded"] else otherwise


def _has_proposal(state: CaseState) -> str:
    return "ask" if state["proposal_id"] else "close"


def _decided(approved: str) -> Callable[[CaseState], str]:
    """To `approved`, back to waiting, or on to store that it was declined."""
    ways = {ProposalState.APPROVED: approved, ProposalState.OPEN: "await_approval"}
    return lambda state: ways.get(ProposalState(state["decision"]), "verify")


def _to_be_undone(state: CaseState) -> str:
    return "undo" if state["undo"] else "close"
