"""Questions that lean on the one before, on the order of what happened, or speak of several runs and cases."""

from __future__ import annotations

import pytest

from agents.chat import Chat, ChatContext, Retrieval, Threads
from agents.tools import READING, Toolbox
from benchmarks.agent_parts.stored_case import CASE, NOW, OTHER, RUN, SUBJECTS, Stored
from context_store import Store
from context_store.records import NewRun
from contracts.enums import RunRole


@pytest.fixture
def chat(still_store: Store, stored: Stored) -> Chat:
    rules = Retrieval(still_store, Toolbox(still_store, READING), lambda: NOW)
    return Chat(rules, Threads(still_store), "ada", lambda: NOW)


FOLLOWED = [
    (f"what is max_vio of layer 1 at step 60 of {RUN}?", "and for layer 3?", "max_vio/layers.3"),
    (f"what is the loss at step 30 of {RUN}?", "and at step 31?", "31: 3.69"),
    (f"status of {RUN}", f"what about {OTHER}?", f"run {OTHER} is"),
    ("was the router lr to blame?", "why not?", "it stays without"),
    ("why do layers 1 and 3 run away?", "who approved it?", "resume without the balance commit"),
]


@pytest.mark.parametrize(("first", "then", "said"), FOLLOWED, ids=[then for _, then, _ in FOLLOWED])
def test_a_question_that_leans_on_the_one_before_is_read_with_it(chat: Chat, first: str, then: str, said: str) -> None:
    where = ChatContext(thread_id="t")
    chat.answer(first, where)
    answer = chat.answer(then, where)
    assert said in answer.text, answer.text


def test_a_question_that_stands_for_itself_takes_nothing_from_before(chat: Chat) -> None:
    where = ChatContext(thread_id="t")
    chat.answer(f"what is the loss at step 30 of {RUN}?", where)
    assert not chat.answer("what is the weather like in Paris today?", where).known


def test_places_in_the_order_become_steps(chat: Chat) -> None:
    assert "optim.router.lr" in chat.answer(f"what came in with the first restart of {RUN}?", ChatContext()).text
    assert "has 1 restarts" in chat.answer(f"what came in with the second restart of {RUN}?", ChatContext()).gap
    assert SUBJECTS[1] in chat.answer(f"what changed before the first spike of {RUN}?", ChatContext()).text


def test_more_than_two_runs_are_compared(chat: Chat, still_store: Store) -> None:
    third = NewRun(id="run-9", project_id="moe", name="run-9", role=RunRole.TRAINING, folder="/none")
    still_store.runs.create(third)
    answer = chat.answer(f"compare {OTHER}#1, {RUN} and {OTHER}#0", ChatContext())
    assert f"{OTHER}#1 -> {RUN}: optim.router.lr" in answer.text
    assert f"{OTHER}#1 -> {OTHER}#0: environment torch" in answer.text


def test_cases_of_a_kind_of_cause_are_listed(chat: Chat) -> None:
    answer = chat.answer("which of the incidents turned out to be a bug in the code?", ChatContext())
    assert f"investigation:{CASE}" in {str(ref) for ref in answer.citations}
    assert SUBJECTS[1] in answer.text
    assert not chat.answer("which incidents were bad hardware?", ChatContext()).known
