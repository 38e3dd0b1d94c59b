"""The same questions and root-cause cases for three brains side by side: rules, a small local model, LATHE_MODEL.

    LATHE_MODEL=anthropic/claude-sonnet-4-5 python -m benchmarks.agent_brains --json --home HOME

A brain that is not there prints "not run". Every brain gets the same tools and the same grading as in
`benchmarks.agents`; a model stands alone here, without the rules that help it out in chat. Of a demo's home, each brain
also orders the suspects of the case (`culprit_first`: it put the proven one first). `benefits` counts what a model did
with its tools: what it asked twice, and whether it got on after a call that found nothing (agent_parts/benefits.py);
with `LATHE_THINKING` it compares the modes of keeping thinking.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.chat import RULES, Answer, Answers, ChatContext, ModelChat
from agents.chat.answer import unknown
from agents.llm import ContextPlan, Door, DoorConfig, LocalBudget, Model, Outside
from agents.llm.errors import ContextTooLong, ModelConfused, ModelRefused, ModelUnavailable
from agents.roles import Hypothesis, order_of
from agents.roles.opinion import ask
from benchmarks.agent_parts.benefits import Watched
from benchmarks.agent_parts.worlds import Demo, Incidents, fresh_store
from benchmarks.agent_parts.written import Over, World, Written, grade, summary
from benchmarks.agents import finished_demo, known_questions, rules_of
from benchmarks.local_brain import CONTEXT_TOKENS, is_installed, local_model
from context_store import Store
from context_store.records import Amount
from control_plane.chat import door_config_of, models_of
from control_plane.settings import load_settings

NOT_RUN = "not run"
KINDS = ("rules", "local", "api")
_BUDGET = Amount(tokens=20_000_000, usd=20.0, wall_s=24 * 3600.0)  # of one brain
_SMALL = DoorConfig(max_tokens=256, context=ContextPlan(max_tokens=CONTEXT_TOKENS))  # of the local model


@dataclass(frozen=True, kw_only=True)
class Brain:
    """`model` None: the rules."""

    kind: str
    model: Model | None

    def answers(self, store: Store) -> Answers:
        return rules_of(store) if self.model is None else Alone(self, store)

    def door(self) -> Door:
        assert self.model is not None
        outside = Outside(clock=time.monotonic, sleep=time.sleep, new_id=lambda: uuid.uuid4().hex)
        config = _SMALL if self.kind == "local" else door_config_of(load_settings())
        return Door([self.model], LocalBudget(_BUDGET), outside, config)


class Alone:
    """A model that nobody helps out: what it fails to say, it does not know. Every question has a thread of its own."""

    def __init__(self, brain: Brain, store: Store) -> None:
        from langgraph.checkpoint.memory import InMemorySaver

        self.tools = Watched(store)
        self._chat = ModelChat(brain.door(), self.tools, InMemorySaver())

    def answer(self, question: str, context: ChatContext) -> Answer:
        self.tools.begin()
        try:
            return self._chat.answer(question, context)
        except (ModelConfused, ModelRefused, ModelUnavailable, ContextTooLong) as error:
            return unknown(f"{error.message} ({error.remedy})")


@contextmanager
def brains(kinds: Sequence[str] = KINDS) -> Iterator[Mapping[str, Brain | None]]:
    """Those that are asked for; None for one that is not there."""
    with ExitStack() as running:
        models: dict[str, Model | None] = dict.fromkeys(kinds)
        if "local" in kinds and is_installed():
            models["local"] = running.enter_context(local_model())
        if "api" in kinds:
            models["api"] = next(iter(models_of(load_settings())), None)
        there = {kind for kind, model in models.items() if model is not None} | {"rules"}
        yield {kind: Brain(kind=kind, model=models[kind]) if kind in there else None for kind in kinds}


def measure(brain: Brain, home: Path, questions: Sequence[Written]) -> dict[str, Any]:
    """What `benchmarks.agents` says of the brain, and whether it finds the culprit of the demo's case."""
    from control_plane.wiring import Lathe

    asked = {over: [each for each in questions if each.over is over] for over in Over}
    with fresh_store() as store, Lathe.open(load_settings(home)) as lathe:
        over: dict[Over, World] = {Over.INCIDENTS: Incidents(store), Over.DEMO: Demo(lathe.store)}
        answering = {Over.INCIDENTS: brain.answers(store), Over.DEMO: brain.answers(lathe.store)}
        rows = [row for each, world in over.items() for row in grade(world, answering[each], asked[each])]
        found = {"questions": summary(rows), "root_cause": root_cause(lathe.store, brain)}
    benefits = {str(each): who.tools.benefits for each, who in answering.items() if isinstance(who, Alone)}
    return {"brain": brain.model.name if brain.model else RULES, **found, "benefits": benefits}


def root_cause(store: Store, brain: Brain) -> dict[str, Any]:
    """Whether the brain puts the proven suspect of the demo's case first, and the share of its claims removed."""
    facts = Demo(store).facts
    opinion = ask(Hypothesis(store), None if brain.model is None else brain.door(), facts["case"])
    order = order_of(opinion, facts["case"])
    by_itself = brain.model is None or opinion.brain == brain.model.name
    first = bool(order) and by_itself and order[0] == f"commit:{facts['culprit']}"
    return {"culprit_first": first, "by_itself": by_itself, "removed_share": opinion.removed_share}


def chosen(limit: int | None) -> list[Written]:
    """All written questions, or the first so many over each store."""
    every = [each for file in known_questions().values() for each in file]
    return [each for over in Over for each in itertools.islice((q for q in every if q.over is over), limit)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--home", type=Path, help="home of a finished demo (over_balance, seed 0)")
    parser.add_argument("--limit", type=int, help="only the first so many questions over each store")
    parser.add_argument("--brain", choices=KINDS, action="append", help="only these")
    options = parser.parse_args()
    questions = chosen(options.limit)
    with finished_demo(options.home) as home, brains(options.brain or KINDS) as known:
        found = {kind: NOT_RUN if brain is None else measure(brain, home, questions) for kind, brain in known.items()}
    sys.stdout.write((json.dumps(found) if options.json else json.dumps(found, indent=1)) + "\n")


if __name__ == "__main__":
    main()
