"""Chat without a model over a real store: right evidence, or "the store does not know"."""

from __future__ import annotations

from pathlib import Path

import pytest
from stored_case import CASE, NOW, OTHER, RUN, SUBJECTS, Stored

from agents.chat import Answer, CardKind, Chat, ChatContext, Exchange, FileThreads, Retrieval
from agents.chat.questions import Kind, recognise
from agents.tools import READING, Desk, Toolbox
from context_store import Store
from contracts.errors import NotFound, UserInputError


@pytest.fixture
def rules(still_store: Store, stored: Stored) -> Retrieval:
    desk = Desk(open_case=lambda run_id: CASE if run_id == RUN else None, actor="chat:ada", clock=lambda: NOW)
    return Retrieval(still_store, Toolbox(still_store, (*READING, *desk.tools())))


def ask(rules: Retrieval, question: str, **context: str) -> Answer:
    return rules.answer(question, ChatContext(**context))


QUESTIONS = [
    (f"What changed before step 45 of {RUN}?", "commit", SUBJECTS[1]),
    (f"what happened between step 30 and 50 in {RUN}", "config", "optim.router.lr"),
    (f"Why did max_vio spike in {RUN}?", "verdict", "causes the departure"),
    ("why do layers 1 and 3 run away?", "verdict", "causes the departure"),
    (f"Why not the router learning rate in {RUN}?", "negative", "the anomaly stays"),
    ("Was it the log lines commit?", "suspect", "the anomaly stays without it"),
    ("What did we try about the router lr?", "negative", "the anomaly stays"),
    (f"compare {OTHER} and {RUN}", "config", "optim.router.lr: 0.01 -> 0.02"),
    (f"how do {RUN}#0 and {RUN}#1 differ?", "config", "torch"),
    (f"Which layers depart in max_vio at step 41 of {RUN}?", "series", "max_vio/layers."),
    (f"which layers depart in {RUN}?", "anomaly", "layers 1 and 3"),
    (f"which layers of max_vio depart at step 41 in {OTHER}?", "series", "no place of max_vio departs"),
    (f"status of {RUN}", "run", "at step 80"),
    ("how are things going?", "proposal", "resume without the balance commit"),
    (f"when did max_vio of {RUN} begin to depart?", "anomaly", "steps 41-44"),
    (f"what is the loss at step 30 of {RUN}?", "series", "30: 3.7"),
    ("have we seen runaway expert load before?", "investigation", "expert load of layers 1 and 3"),
    ("how can the expert load be fixed?", "proposal", "resume without the balance commit"),
    ("what waits for me to approve?", "proposal", "is open"),
    (f"investigate {RUN}", "investigation", f"case {CASE}"),
]


@pytest.mark.parametrize(("question", "kind", "text"), QUESTIONS, ids=[q for q, _, _ in QUESTIONS])
def test_common_questions_are_answered_with_evidence(rules: Retrieval, question: str, kind: str, text: str) -> None:
    answer = ask(rules, question)
    assert answer.known, answer.gap
    assert text in answer.text
    assert kind in {ref.kind for ref in answer.citations}
    assert all(statement.evidence for statement in answer.statements)


UNKNOWN = [
    "What is the weather in Paris?",
    f"what changed before step 30 of {OTHER}x?",
    "status of run-99",
    f"why did the gradient norm explode in {OTHER}?",
    "What did we try about dropout?",
    "Why not the tokenizer?",
    f"what is the perplexity at step 30 of {RUN}?",
    "have we seen a CUDA out of memory before?",
    "compare the two",
    "what does commit deadbeef1 change?",
    f"when did loss of {RUN} diverge?",
    "how was the NCCL timeout fixed?",
    f"investigate {OTHER}",
]


@pytest.mark.parametrize("question", UNKNOWN)
def test_what_the_store_does_not_know_is_said(rules: Retrieval, question: str) -> None:
    answer = ask(rules, question)
    assert not answer.known, answer.text
    assert answer.text.startswith("The store does not know: ")
    assert answer.citations == ()


def test_a_page_gives_the_context(rules: Retrieval) -> None:
    assert "causes the departure" in ask(rules, "why?", investigation_id=CASE).text
    assert "causes the departure" in ask(rules, "what is the cause?", run_id=RUN).text
    assert not ask(rules, "why did the gradient norm explode?", run_id=RUN).known
    with pytest.raises(NotFound):
        ask(rules, "why?", investigation_id="nothing")


def test_plots_show_the_onset_with_change_markers(rules: Retrieval) -> None:
    cards = ask(rules, f"why did max_vio spike in {RUN}?").cards
    plot = next(card for card in cards if card.kind is CardKind.SERIES)
    assert plot.detail["name"] == "max_vio/layers.1"
    assert plot.detail["onset"] == [41, 44]
    assert 40 in {marker["step"] for marker in plot.detail["markers"]}
    assert {CardKind.CASE, CardKind.PROPOSAL} <= {card.kind for card in cards}


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("why not the learning rate?", Kind.WHY_NOT),
        ("why did the loss spike?", Kind.WHY),
        ("what did you try for the overflow, and why did it fail?", Kind.TRIED),
        ("what changed before step 1,200?", Kind.CHANGED),
        ("How do a and b differ?", Kind.COMPARE),
        ("is it going well?", Kind.STATUS),
    ],
)
def test_forms_are_told_apart(question: str, kind: Kind) -> None:
    assert recognise(question, ()).kind is kind


def test_runs_steps_and_commits_are_read_from_the_question() -> None:
    asked = recognise("compare run-7#1 with run-70 between steps 1,200 and 1300 after 3f2a9cdd", ["run-7", "run-70"])
    assert asked.runs == ("run-7#1", "run-70")
    assert asked.steps == (1200, 1300)
    assert asked.commit == "3f2a9cdd"


def test_threads_keep_every_exchange(rules: Retrieval, tmp_path: Path) -> None:
    threads = FileThreads(tmp_path / "threads")
    chat = Chat(rules, threads, "ada", lambda: NOW)
    where = ChatContext(run_id=RUN, thread_id=f"{CASE}:first/one")
    answers = [chat.answer(question, where) for question in ("why?", "What is the weather in Paris?", "status")]
    (path,) = (tmp_path / "threads").iterdir()
    path.write_bytes(path.read_bytes()[:-20])  # a crash in the middle of the last line
    again = chat.answer("status", where)
    kept = FileThreads(tmp_path / "threads").exchanges(where.thread_id)
    assert [each.answer for each in kept] == [*answers[:2], again]
    assert kept[0] == Exchange(question="why?", answer=answers[0], actor="ada", at=NOW)
    assert threads.ids() == (where.thread_id,)


@pytest.mark.parametrize("question", ["  ", "x" * 5000])
def test_what_is_no_question_is_refused(rules: Retrieval, tmp_path: Path, question: str) -> None:
    with pytest.raises(UserInputError):
        Chat(rules, FileThreads(tmp_path), "ada", lambda: NOW).answer(question, ChatContext())
