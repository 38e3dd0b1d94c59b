"""Which text goes where is said, with and without a model."""

from __future__ import annotations

from doors import openai_model
from scripted_server import ScriptedServer, Turn

from agents.chat import ChatContext
from benchmarks.agent_parts.stored_case import CASE, NOW, PROJECT, Stored
from context_store import Store
from context_store.records import Amount
from control_plane.chat import RULES_ALONE, Mind, open_chat
from control_plane.providers import NEVER, flows


def test_without_a_model_nothing_is_sent(still_store: Store) -> None:
    assert {(each.to, each.text, each.leaves_machine) for each in flows(still_store, RULES_ALONE)} == {
        ("nobody: no model is set", "nothing", False),
        ("nobody: vectors are made here", "nothing", False),
    }
    (search,) = [each for each in flows(still_store, Mind(embedder="openai/x")) if each.purpose == "search"]
    assert (search.to, search.leaves_machine) == ("openai/x at the provider's own address", True)


def test_what_was_used_is_counted_and_addresses_hold_no_secret(still_store: Store, stored: Stored) -> None:
    from langgraph.checkpoint.memory import InMemorySaver

    saver = InMemorySaver()
    budget = Amount(tokens=1_000_000, usd=100.0, wall_s=3600.0)
    with ScriptedServer([Turn(text="hm")]) as server:
        mind = Mind(models=(openai_model(server),), checkpointer=lambda: saver, budget=budget, where=server.url)
        context = ChatContext(investigation_id=CASE, thread_id="t")
        open_chat(still_store, mind, context, "ada").answer("why?", context)
        chat, agents, *_ = flows(still_store, mind)
        assert chat.to == f"openai/scripted at {server.url}"
    assert chat.tokens > 0
    assert chat.usd > 0
    assert agents.tokens == 0
    assert not chat.leaves_machine
    far = Mind(models=mind.models, where="https://user:secret@models.example/v1?key=secret")
    assert flows(still_store, far)[0].to == "openai/scripted at https://models.example/v1"
    assert flows(still_store, far)[0].leaves_machine
    assert flows(still_store, Mind(models=mind.models))[0].leaves_machine


def test_labels_and_scaffolds_are_counted_where_they_are_sent(still_store: Store, stored: Stored) -> None:
    """The loops that send whole texts have a line of their own, and what is called never sent allows for them."""
    amount = Amount(tokens=100, usd=1.0)
    for loop, tokens in (("classifier", 30), ("evolve", 20)):
        case_id = f"of-{loop}"
        still_store.knowledge.open_case(case_id, project_id=PROJECT, loop=loop, title=loop, at=NOW)
        still_store.budgets.open(f"agents:{case_id}", amount)
        still_store.budgets.reserve(f"agents:{case_id}", f"one:{loop}", amount)
        still_store.budgets.settle(f"one:{loop}", tokens=tokens)
    with ScriptedServer([]) as server:
        chat, roles, labels, proposals, _ = flows(still_store, Mind(models=(openai_model(server),)))
    assert [each.tokens for each in (chat, roles, labels, proposals)] == [0, 0, 30, 20]
    assert "whole text of each document" in labels.text
    assert "files of the scaffold" in proposals.text
    assert "documents that a model is asked to label" in NEVER
    assert "the scaffold that an evolution run edits" in NEVER
