"""Kinds by meaning, the leading case, and what is nearest: more questions answered, and none that nothing says."""

from __future__ import annotations

import pytest

from agents.chat import ChatContext, Retrieval
from agents.chat.forms import Kind
from agents.chat.meaning import Meaning
from agents.chat.places import foreign_names
from agents.chat.prototypes import PROTOTYPES
from agents.chat.questions import recognise
from agents.tools import READING, Toolbox
from benchmarks.agent_parts.stored_case import RUN, Stored
from context_store import Store
from context_store.embedding import HashedEmbedder


@pytest.fixture
def rules(still_store: Store, stored: Stored) -> Retrieval:
    still_store.search.embed()
    return Retrieval(still_store, Toolbox(still_store, READING))


@pytest.mark.parametrize("kind", [kind for kind in PROTOTYPES if kind is not Kind.OTHER])
def test_a_question_like_the_prototypes_of_a_kind_is_nearest_to_that_kind(kind: Kind) -> None:
    near = Meaning(HashedEmbedder()).closeness(PROTOTYPES[kind][0].replace("the run", RUN), [RUN])
    assert kind in sorted(near, key=lambda each: -near[each])[:2]


def test_kinds_that_act_are_never_guessed() -> None:
    assert not {Kind.INVESTIGATE, Kind.COMMIT} & set(PROTOTYPES)


OTHERWISE = [
    (f"my guess is the router lr of {RUN}", "negative"),
    ("log lines shorter, surely that plays a part in this", "suspect"),
]


@pytest.mark.parametrize(("question", "kind"), OTHERWISE, ids=[question for question, _ in OTHERWISE])
def test_questions_without_a_form_are_answered_with_evidence(rules: Retrieval, question: str, kind: str) -> None:
    assert recognise(question, [RUN]).kind is Kind.OTHER
    answer = rules.answer(question, ChatContext())
    assert answer.known, answer.gap
    assert kind in {ref.kind for ref in answer.citations}


UNKNOWN = [
    f"the dropout of {RUN}, surely that plays a part in this",
    f"roughly what share of the validation loss of {RUN} is padding",
    "my guess is the FlashAttention kernel",
    f"where will {RUN} be if we train for another thousand steps",
    f"my guess is layer 11 of {RUN}",
    f"something odd about 9000 steps of {RUN}, my guess is the router lr",
]


@pytest.mark.parametrize("question", UNKNOWN)
def test_what_is_nearest_is_no_answer_to_something_else(rules: Retrieval, question: str) -> None:
    answer = rules.answer(question, ChatContext())
    assert not answer.known, answer.text


def test_names_that_a_text_lacks_are_told_in_other_words_too() -> None:
    assert foreign_names("slower on the B200 since MMLU ran", "a slow GPU") == ["B200", "MMLU"]
    assert foreign_names("what about TP 8 and NaN", "the tensor-parallel size, TP 8; not a number") == []
