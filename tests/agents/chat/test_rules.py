"""Chat without a model over a real store: right evidence, or "the store does not know"."""

from __future__ import annotations

import pytest

from agents import guidance
from agents.chat import Answer, CardKind, Chat, ChatContext, Exchange, Instructions, Retrieval, Threads
from agents.chat.forms import Kind
from agents.chat.questions import recognise
from agents.guidance import Word
from agents.tools import READING, Desk, Toolbox
from benchmarks.agent_parts.stored_case import CASE, NOW, OTHER, RUN, SUBJECTS, Stored
from context_store import Store
from contracts.enums import InvestigationState
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
    ("how sure are we about the culprit?", "verdict", "would overturn"),
    ("what happened when the balance commit was left out?", "diagnostic", "it recedes"),
    ("was the router lr to blame?", "suspect", "it stays without"),
    ("what was ruled out?", "suspect", "refuted"),
    ("which commits touch balance.py?", "commit", SUBJECTS[1]),
    ("what did Ada commit?", "commit", SUBJECTS[2]),
    (f"what is the learning rate of the router in {RUN}?", "config", "optim.router.lr is 0.02"),
    ("which torch version was used?", "config", "environment.torch is 2.12"),
    (f"what is the lowest loss of {RUN}?", "series", "3.2, at step 80"),
    (f"what was the loss of {RUN} at 30 vs 31?", "series", "31: 3.69"),
    (f"did max_vio get worse in {RUN}?", "anomaly", "departs from the other layers"),
    (f"did the loss of {OTHER} go up?", "series", "loss of run run-8 is no anomaly"),
    ("is layer 3 affected?", "anomaly", "layers 1 and 3"),
    ("which curves were off?", "anomaly", "steps 41-44"),
    (f"what changed at step 40 of {RUN}?", "config", "optim.router.lr"),
    (f"when was {RUN} resumed?", "event", "resumed"),
    ("which runs do we have?", "run", f"run {OTHER}"),
    (f"how is {OTHER}?", "run", "at step 80"),
    ("summarise the case", "verdict", "causes the departure"),
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
    f"what changed before step 900 of {RUN}?",
    f"what is the loss at step 900 of {RUN}?",
    "what is the learning rate of the vision encoder?",
    "did anyone try gloo against the departure of max_vio?",
    "what did Grace commit?",
    "what changed in the tokenizer?",
    "did the validation loss go up?",
    "is layer 9 affected?",
    "who approved the new tokenizer?",
    "was the network to blame for the departure of max_vio?",
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


def test_plots_show_the_onset_with_change_markers(rules: Retrieval, still_store: Store) -> None:
    chat = Chat(rules, Threads(still_store), "ada", lambda: NOW)
    cards = chat.answer(f"why did max_vio spike in {RUN}?", ChatContext()).cards
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


def test_threads_keep_every_exchange(rules: Retrieval, still_store: Store) -> None:
    threads = Threads(still_store)
    chat = Chat(rules, threads, "ada", lambda: NOW)
    where = ChatContext(run_id=RUN, thread_id=f"{CASE}:first/one")
    answers = [chat.answer(question, where) for question in ("why?", "What is the weather in Paris?", "status")]
    kept = Threads(still_store).exchanges(where.thread_id)
    assert [each.answer for each in kept] == answers
    assert kept[0] == Exchange(question="why?", answer=answers[0], actor="ada", at=NOW)
    (thread,) = still_store.threads.list(run_id=RUN)
    assert (thread.id, thread.title, thread.num_exchanges) == (where.thread_id, "why?", 3)


@pytest.mark.parametrize("question", ["  ", "x" * 5000])
def test_what_is_no_question_is_refused(rules: Retrieval, still_store: Store, question: str) -> None:
    with pytest.raises(UserInputError):
        Chat(rules, Threads(still_store), "ada", lambda: NOW).answer(question, ChatContext())


ORDERS = [
    ("test suspect 3 first", Word.FIRST, "log lines"),
    ("Please try the readme commit first.", Word.FIRST, ""),
    ("exclude suspect launch:optim.router.lr", Word.EXCLUDE, "optim.router.lr"),
    ("ignore the log lines", Word.EXCLUDE, "log lines"),
    ("take back suspect 2", Word.INCLUDE, "optim.router.lr"),
    ("stop the search", Word.STOP, ""),
    ("go on", Word.GO_ON, ""),
]


@pytest.fixture
def told(rules: Retrieval, still_store: Store) -> Chat:
    still_store.knowledge.set_investigation(CASE, state=InvestigationState.OPEN)
    instructions = Instructions(still_store, "ada", lambda: NOW)
    return Chat(rules, Threads(still_store), "ada", lambda: NOW, instructions=instructions)


@pytest.mark.parametrize(("order", "word", "title"), ORDERS, ids=[order for order, _, _ in ORDERS])
def test_orders_to_a_running_loop_are_written_down(
    told: Chat, still_store: Store, order: str, word: Word, title: str
) -> None:
    answer = told.answer(order, ChatContext(investigation_id=CASE))
    given = [each for each in guidance.entries(still_store, CASE) if guidance.is_guidance(each)]
    if word is Word.FIRST and not title:  # no suspect is called so
        assert not answer.known
        assert given == []
        return
    assert answer.known, answer.gap
    assert title in answer.text
    (entry,) = given
    assert (entry.actor, entry.detail["word"]) == ("ada", word)


def test_an_order_needs_a_case_that_is_searched(told: Chat, still_store: Store, rules: Retrieval) -> None:
    where = ChatContext(investigation_id=CASE)
    assert "which suspect" in told.answer("exclude suspect 9", where).gap
    still_store.knowledge.set_investigation(CASE, state=InvestigationState.CLOSED)
    assert "not searching any more" in told.answer("stop", where).gap
    assert "thread of a case" in told.answer("stop", ChatContext()).gap
    viewer = Chat(rules, Threads(still_store), "eve", lambda: NOW)
    viewer.answer("stop", where)
    assert not any(map(guidance.is_guidance, guidance.entries(still_store, CASE)))


@pytest.mark.parametrize("question", ["why did it stop?", "what did we try first?", "skip", "should I exclude it?"])
def test_questions_are_no_orders(told: Chat, still_store: Store, question: str) -> None:
    told.answer(question, ChatContext(investigation_id=CASE))
    assert not any(map(guidance.is_guidance, guidance.entries(still_store, CASE)))


def test_people_remember_by_key_and_forget_by_superseding(told: Chat, still_store: Store) -> None:
    where = ChatContext(investigation_id=CASE)
    told.answer("remember eval/seeds: we use five seeds for every comparison", where)
    (held,) = still_store.memory.list()
    assert (held.key, held.author, str(held.evidence[0])) == ("eval/seeds", "ada", f"investigation:{CASE}")
    answer = told.answer("what did we try about seeds for a comparison?", where)
    assert "five seeds" in answer.text
    assert "memory" in {ref.kind for ref in answer.citations}
    assert "five seeds" in told.answer("what did we decide about seeds?", where).text
    assert "names what it rests on" in told.answer("remember a: b", ChatContext()).gap
    told.answer("forget eval/seeds: no comparisons any more", where)
    assert still_store.memory.list() == []
    assert len(still_store.memory.line("eval/seeds")) == 2
