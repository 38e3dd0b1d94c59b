"""Builds the chat: without a model the rules answer, with `LATHE_MODEL` that model does."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from agents.chat import Chat, ChatContext, Instructions, ModelChat, Retrieval, Threads
from agents.llm import ContextPlan, Door, DoorConfig, Model, ModelConfig, Outside, StoreBudget, ThinkingMode
from agents.llm.protocol import OnDelta, ignore
from agents.skills import learn_from, with_skills
from agents.tools import READING, Desk, Toolbox
from context_store import Store
from context_store.records import Amount
from contracts.errors import NotFound
from contracts.evidence import EvidenceRef

if TYPE_CHECKING:
    from control_plane.settings import Settings
    from control_plane.wiring import Lathe

_WALL_S = 3600.0


@dataclass(frozen=True, kw_only=True)
class Mind:
    """What answers: `models` in the order in which they are asked, none for the rules alone.

    `checkpointer` makes the saver in which a model's side of a thread is kept. `budget`: of one thread, for good.
    `where`: the address the models are asked at, "" for their provider's own. `embedder`: the model that makes
    vectors of what is stored for search; "" where that is done here.
    """

    models: tuple[Model, ...] = ()
    checkpointer: Callable[[], Any] | None = None
    budget: Amount = field(default_factory=Amount)
    where: str = ""
    embedder: str = ""
    door_config: DoorConfig = field(default_factory=DoorConfig)

    def door(self, store: Store, budget_id: str, project_id: str | None = None) -> Door | None:
        """A door whose calls are reserved in the store's budget `budget_id`, opened here; None without a model.

        Where the project's spending is limited, that budget is a child of its.
        """
        if not self.models:
            return None
        parent_id = None if project_id is None else store.budgets.of_project(project_id)
        if parent_id is not None:
            return self._door_within(store, budget_id, parent_id)
        store.budgets.open(budget_id, self.budget)
        return self._door(StoreBudget(store, budget_id))

    def door_of_case(self, store: Store, case_id: str) -> Door | None:
        """As `door`, for the agents of a case: their budget is a child of the case's."""
        if not self.models:
            return None
        return self._door_within(store, f"agents:{case_id}", case_id)

    def _door_within(self, store: Store, budget_id: str, parent_id: str) -> Door:
        """Wall seconds are the parent's for re-runs, so none are taken."""
        store.budgets.open_share(budget_id, replace(self.budget, wall_s=0.0), parent_id)
        return self._door(StoreBudget(store, budget_id, timed=False))

    def _door(self, budget: StoreBudget) -> Door:
        outside = Outside(clock=time.monotonic, sleep=time.sleep, new_id=lambda: uuid.uuid4().hex)
        return Door(self.models, budget, outside, self.door_config)


RULES_ALONE = Mind()


def models_of(settings: Settings) -> tuple[Model, ...]:
    """The model of the settings and those that stand by for it; none without one."""
    thinking = 0 if settings.thinking == ThinkingMode.NONE.value else settings.thinking_tokens
    configs = [
        ModelConfig(name=name, api_base=settings.api_base, thinking_tokens=thinking) for name in settings.model_names
    ]
    return tuple(config.build() for config in configs)


def door_config_of(settings: Settings) -> DoorConfig:
    """How a door asks the models of the settings. An answer has room besides what may be thought."""
    return DoorConfig(
        max_tokens=DoorConfig.max_tokens + settings.thinking_tokens,
        thinking=ThinkingMode(settings.thinking),
        context=ContextPlan(max_tokens=settings.context_tokens),
    )


def mind_of(lathe: Lathe) -> Mind:
    """The mind of an open Lathe."""
    settings = lathe.settings
    budget = Amount(tokens=settings.chat_tokens, usd=settings.chat_usd, wall_s=_WALL_S)
    return Mind(
        models=models_of(settings),
        checkpointer=lathe.checkpointer,
        budget=budget,
        where=settings.api_base,
        embedder="" if settings.embedder == "hashed" else settings.embedder,
        door_config=door_config_of(settings),
    )


def open_chat(
    store: Store,
    mind: Mind,
    context: ChatContext,
    actor: str,
    clock: Callable[[], float] = time.time,
    on_delta: OnDelta = ignore,
) -> Chat:
    """A chat of somebody who may ask for investigations, hand in proposals and instruct loops."""
    desk = Desk(open_case=lambda run_id: open_case_of(store, run_id, clock()), actor=f"chat:{actor}", clock=clock)
    tools = with_skills(store, (*READING, *desk.tools()), actor=desk.actor, clock=clock)
    toolbox = Toolbox(store, tools)
    door = mind.door(store, f"chat:{context.thread_id}", _project_of(store, context))
    model = None
    if door is not None and mind.checkpointer is not None:

        def learn(actions: Sequence[tuple[str, Mapping[str, Any]]], refs: Sequence[EvidenceRef]) -> None:
            learn_from(store, toolbox, actions, evidence=refs, author=desk.actor, at=clock())

        model = ModelChat(door, toolbox, mind.checkpointer(), on_delta=on_delta, learn=learn)
    rules, orders = Retrieval(store, toolbox, clock), Instructions(store, actor, clock)
    return Chat(rules, Threads(store), actor, clock, model, orders)


def _project_of(store: Store, context: ChatContext) -> str | None:
    """Of the run or case that a thread is about, where it is stored."""
    with suppress(NotFound):
        if context.investigation_id:
            return store.knowledge.investigation(context.investigation_id).project_id
        if context.run_id:
            return store.runs.get(context.run_id).project_id
    return None


def forget(mind: Mind, thread_id: str) -> None:
    """Let a model's side of a thread that is deleted go too."""
    if mind.checkpointer is not None:
        mind.checkpointer().delete_thread(f"chat:{thread_id}")


def thread_of(context: ChatContext) -> str:
    """The thread in which a question is asked when nobody names one."""
    return f"{context.investigation_id or context.run_id or 'everything'}:main"


def open_case_of(store: Store, run_id: str, at: float) -> str | None:
    """Look at a run and open a case for what is wrong; its id, None when nothing is. Raises NotFound."""
    from loops.debug import detect, open_case

    return open_case(store, run_id, detect(store, run_id), at)
