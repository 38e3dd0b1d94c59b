"""Control flow of the scaffold as a LangGraph graph: think, act, until the work is handed in or the budget is spent."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any, TypedDict

from langgraph.graph import START, StateGraph

_HERE = Path(__file__).parent


class State(TypedDict, total=False):
    """`happened`: tool answers in order; `action`: what the brain chose last."""

    happened: list[dict[str, str]]
    action: dict[str, Any]


def opening(params: dict[str, Any], task: str) -> list[dict[str, str]]:
    """Prompt, the skills this kind of task may use, and the task."""
    shown = params["skills"] if params["skills_for"] in ("all", task.split("\n", 1)[0]) else []
    skills = "\n".join((_HERE / "skills" / f"{name}.md").read_text().strip() for name in shown)
    texts = ((_HERE / "prompts" / "system.md").read_text(), skills, f"TASK {task}\n\n")
    return [{"role": role, "text": text} for role, text in zip(("system", "system", "user"), texts, strict=True)]


def build(desk: Any) -> Any:
    """The compiled graph for one episode at this desk."""
    params = json.loads((_HERE / "params.json").read_text())
    kinds = [importlib.import_module(f"mechanisms.{name}") for name in params["mechanisms"]]
    mechanisms = [kind.Mechanism(params, desk) for kind in kinds]
    fixed = opening(params, desk.task)

    def begin(state: State) -> State:
        texts = [text for each in mechanisms for text in each.opening()]
        return State(happened=[{"role": "tool", "text": text} for text in texts])

    def think(state: State) -> State:
        view = [*fixed, *state["happened"]]
        for each in mechanisms:
            view = each.view(view, len(fixed))
        return State(action=desk.ask(view, params["tools"], params["temperature"]))

    def act(state: State) -> State:
        action = state["action"]
        if "error" in action:
            return State(happened=[*state["happened"], {"role": "tool", "text": f"ERROR {action['error']}"}])
        answers = (text for each in mechanisms if (text := each.instead(action)) is not None)
        text = next(answers, None)
        if text is None:
            text = desk.tool(action["tool"], action["args"])
            for each in mechanisms:
                text = each.after(action, text)
        return State(happened=[*state["happened"], {"role": "tool", "text": text}])

    graph = StateGraph(State)
    for node in (begin, think, act):
        graph.add_node(node.__name__, node)
    for before, after in ((START, "begin"), ("begin", "think"), ("think", "act"), ("act", "think")):
        graph.add_edge(before, after)
    return graph.compile()
