"""What a question asks for is read from its form, and has to stand in the store."""

from __future__ import annotations

import pytest

from agents.chat import ChatContext, Retrieval
from agents.chat.reading import Slot, read
from agents.tools import READING, Toolbox
from benchmarks.agent_parts.stored_case import NOW, RUN, Stored
from context_store import Store


@pytest.mark.parametrize(
    ("question", "slot", "thing"),
    [
        ("Would label smoothing have stopped the loss from creeping up?", Slot.REMEDY, "label smoothing"),
        ("It spiked. Did going back to an older save help anybody?", Slot.REMEDY, "going back to an older save"),
        ("is it enough to restart the position ids for every document?", Slot.REMEDY, "restart the position ids"),
        ("did anyone try gloo instead of nccl?", Slot.REMEDY, "gloo"),
        ("Why isn't it simply the restart that upset main?", Slot.SUSPECT, "restart"),
        ("Could the bigger beta2 on the embeddings have done it?", Slot.SUSPECT, "bigger beta2 on the embeddings"),
        ("The attention lr: was it ever ruled out?", Slot.SUSPECT, "attention lr"),
        ("How many GPUs was the job using?", Slot.AMOUNT, "GPUs"),
        ("What learning rate was the 130B run at when it broke?", Slot.AMOUNT, "learning rate"),
        ("how many experts per token do we route to?", Slot.AMOUNT, "experts per token"),
        ("how long did the dedup step take?", Slot.DURATION, "dedup step"),
        ("Which datacenter was the bad node in?", Slot.NAME, "datacenter"),
        ("Was a router z-loss switched on in that run?", Slot.PRESENT, "router z-loss"),
        ("Who reviewed it?", Slot.WHO, "reviewed it"),
        ("Why did the loss jump?", Slot.OPEN, ""),
    ],
)
def test_a_slot_and_its_thing(question: str, slot: Slot, thing: str) -> None:
    reading = read(question)
    assert (reading.slot, reading.thing) == (slot, thing)


def test_what_asks_is_told_from_what_is_only_told() -> None:
    reading = read("The corpus was deduped. Was it the tokenizer? We never touched it.")
    assert reading.asks == "Was it the tokenizer?"
    assert reading.told == "The corpus was deduped. We never touched it."
    assert "tokenizer" not in reading.about


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("Did label smoothing help against the departure of the expert load?", "'label smoothing' is not among"),
        ("Was it the tokenizer that broke the expert load?", "'tokenizer' is not among"),
        ("Who reviewed the balance commit before it was merged?", "nobody is recorded to have 'reviewed'"),
        ("What do they see in the vision team?", "'the vision team'"),
        ("If we let it train on, will the load stay balanced?", "if a training went on"),
    ],
)
def test_what_is_missing_is_said(still_store: Store, stored: Stored, question: str, said: str) -> None:
    """The store does not know, and why."""
    rules = Retrieval(still_store, Toolbox(still_store, READING), lambda: NOW)
    answer = rules.answer(question, ChatContext(run_id=RUN))
    assert not answer.known
    assert said in answer.gap


def test_what_is_there_is_answered(still_store: Store, stored: Stored) -> None:
    rules = Retrieval(still_store, Toolbox(still_store, READING), lambda: NOW)
    for question, kind in (
        ("Could the shorter log lines have done it?", "suspect"),
        ("Was the router learning rate ever ruled out?", "suspect"),
    ):
        answer = rules.answer(question, ChatContext(run_id=RUN))
        assert kind in {ref.kind for ref in answer.citations}
