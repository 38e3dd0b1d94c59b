"""Builds the chat of an open Lathe: without a model the rules answer, with `LATHE_MODEL` that model does."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

from agents.chat import Chat, ChatContext, FileThreads, ModelChat, Retrieval
from agents.llm import Door, ModelConfig, Outside, StoreBudget
from agents.tools import READING, Desk, Toolbox
from context_store import Store
from context_store.records import Amount
from control_plane.wiring import Lathe

BUDGET = Amount(tokens=1_000_000, usd=5.0, wall_s=3600.0)  # of one thread, for good


def open_chat(lathe: Lathe, context: ChatContext, clock: Callable[[], float] = time.time) -> Chat:
    """A chat in the name of the settings' actor. Threads lie in LATHE_HOME."""
    settings, store = lathe.settings, lathe.store
    actor = f"chat:{settings.actor}"
    desk = Desk(open_case=lambda run_id: _open_case(store, run_id, clock()), actor=actor, clock=clock)
    toolbox = Toolbox(store, (*READING, *desk.tools()))
    threads = FileThreads(settings.home / "threads")
    return Chat(Retrieval(store, toolbox), threads, settings.actor, clock, _model(lathe, toolbox, context))


def thread_of(context: ChatContext) -> str:
    """The thread in which a question is asked when nobody names one."""
    return f"{context.investigation_id or context.run_id or 'everything'}:main"


def _model(lathe: Lathe, toolbox: Toolbox, context: ChatContext) -> ModelChat | None:
    if not lathe.settings.model:
        return None
    budget_id = f"chat:{context.thread_id}"
    lathe.store.budgets.open(budget_id, BUDGET)
    model = ModelConfig(name=lathe.settings.model, api_base=lathe.settings.api_base).build()
    outside = Outside(clock=time.monotonic, sleep=time.sleep, new_id=lambda: uuid.uuid4().hex)
    door = Door([model], StoreBudget(lathe.store, budget_id), outside)
    return ModelChat(door, toolbox, lathe.checkpointer())


def _open_case(store: Store, run_id: str, at: float) -> str | None:
    from loops.debug import detect, open_case

    return open_case(store, run_id, detect(store, run_id), at)
