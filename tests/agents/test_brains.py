"""The plumbing on a real small model, and the script that compares brains. Nothing here claims quality."""

from __future__ import annotations

import pytest

from agents.chat import ChatContext
from agents.llm import DoorConfig
from agents.roles import Hypothesis
from agents.roles.opinion import ask
from benchmarks.agent_brains import Brain, brains, root_cause
from benchmarks.agent_parts.benefits import Watched
from benchmarks.agent_parts.stored_case import CASE, RUN, Stored
from benchmarks.local_brain import is_installed, local_model
from context_store import Store
from context_store.records import Amount
from control_plane.chat import Mind, open_chat

PLENTY = Amount(tokens=1_000_000, usd=1.0, wall_s=3600.0)


def test_brains_that_are_not_there_are_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules, a small local model and an API behind one interface, each named in the report. Shows RM2-0.3."""
    monkeypatch.delenv("LATHE_MODEL", raising=False)
    with brains(("rules", "api")) as known:
        assert {kind: brain is None for kind, brain in known.items()} == {"rules": False, "api": True}
    monkeypatch.setenv("LATHE_MODEL", "openai/x")
    with brains(("api",)) as known:
        assert known["api"] is not None


def test_what_a_model_asks_twice_and_how_it_gets_on_is_counted(still_store: Store, stored: Stored) -> None:
    """Self-correction and sample efficiency as numbers, of what it did question by question. Shows RM2-7.6."""
    tools = Watched(still_store)
    for asked in ((RUN, RUN), ("run-99", RUN), ("run-98",)):
        tools.begin()
        for run_id in asked:
            tools.try_call("anomalies", {"run_id": run_id})
    assert tools.benefits == {"calls_per_question": 5 / 3, "repeated_share": 0.2, "recovered_share": 0.5}


def test_the_rules_order_the_suspects_of_a_case(still_store: Store, stored: Stored) -> None:
    found = root_cause(still_store, Brain(kind="rules", model=None))
    assert found == {"culprit_first": True, "by_itself": True, "removed_share": 0.0}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(not is_installed(), reason="needs the extra local-llm")
def test_a_real_small_model_in_chat_and_in_a_role(still_store: Store, stored: Stored) -> None:
    """Whatever it says: what is shown rests on evidence, what it used is counted, and the thread is kept."""
    from langgraph.checkpoint.memory import InMemorySaver

    saver = InMemorySaver()
    context = ChatContext(investigation_id=CASE, thread_id="real")
    drafts: list[str] = []
    with local_model() as model:
        mind = Mind(
            models=(model,),
            checkpointer=lambda: saver,
            budget=PLENTY,
            door_config=DoorConfig(max_tokens=128, attempts=1),
        )
        chat = open_chat(still_store, mind, context, "ada", on_delta=lambda delta: drafts.append(delta.text))
        answer = chat.answer("Why does max_vio depart?", context)
        opinion = ask(Hypothesis(still_store), mind.door(still_store, "agents:case"), CASE)
    assert answer.known
    assert all(each.evidence for each in answer.statements)
    assert drafts
    assert opinion.statements
    used = still_store.budgets.state("chat:real").used
    assert used.tokens > 100, "at least the rules of chat were read"
    assert used.usd == 0.0
    assert [each.question for each in still_store.threads.exchanges("real")] == ["Why does max_vio depart?"]
