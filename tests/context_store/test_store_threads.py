"""Threads of chat and memory, shared by everybody who uses the database."""

from __future__ import annotations

import threading

import pytest
from training_log import make_run

from context_store import Store, open_store
from context_store.records import ChatThread
from contracts.enums import MemoryKind
from contracts.errors import NotFound, UserInputError
from contracts.evidence import EvidenceRef

CASE = EvidenceRef(kind="investigation", id="case-1")
THREAD = ChatThread(
    id="case-1:a", title="why?", run_id="run-7", investigation_id="case-1", created_by="ada", created_at=1.0
)


@pytest.fixture(autouse=True)
def case(store: Store) -> None:
    make_run(store, "run-7")
    store.knowledge.open_investigation("case-1", "run-7", [], "why?", at=1.0)


def remember(store: Store, text: str, key: str = "eval/seeds", at: float = 1.0, author: str = "ada") -> int:
    return store.memory.remember(key, text, kind=MemoryKind.CONVENTION, evidence=(CASE,), author=author, at=at).id


def test_a_thread_is_seen_by_another_machine(store: Store, database_url: str) -> None:
    assert store.threads.open(THREAD) == THREAD
    store.threads.open(ChatThread(**{**vars(THREAD), "title": "other"}))  # the first one stays
    store.threads.add(THREAD.id, question="why?", answer={"x": float("inf")}, actor="ada", at=2.0)
    with open_store(database_url) as elsewhere:
        (found,) = elsewhere.threads.list(investigation_id="case-1")
        assert (found.title, found.num_exchanges) == ("why?", 1)
        (exchange,) = elsewhere.threads.exchanges(THREAD.id)
        assert exchange.answer == {"x": float("inf")}
        assert elsewhere.threads.list(run_id="run-8") == []
        elsewhere.threads.delete(THREAD.id)
    assert store.threads.exchanges(THREAD.id) == []
    for gone in (store.threads.get, store.threads.delete):
        with pytest.raises(NotFound):
            gone(THREAD.id)
    with pytest.raises(NotFound):
        store.threads.add(THREAD.id, question="why?", answer={}, actor="ada", at=2.0)


def test_memory_is_superseded_and_never_erased(store: Store) -> None:
    """Shows RM2-7.14."""
    first = remember(store, "two seeds")
    assert remember(store, "two seeds") == first
    second = remember(store, "five seeds", at=2.0)
    assert [each.text for each in store.memory.list()] == ["five seeds"]
    assert [(each.id, each.supersedes) for each in store.memory.line("eval/seeds")] == [(first, None), (second, first)]
    store.memory.retire("eval/seeds", "no evaluation any more", author="bob", at=3.0)
    assert store.memory.holds("eval/seeds") is None
    assert store.memory.list() == []
    assert len(store.memory.line("eval/seeds")) == 3
    remember(store, "ten seeds", at=4.0)
    assert [each.text for each in store.memory.list("moe")] == ["ten seeds"]


def test_memory_names_its_source(store: Store) -> None:
    for author, text in (("", "x"), ("ada", " ")):
        with pytest.raises(UserInputError):
            remember(store, text, author=author)
    with pytest.raises(UserInputError):
        store.memory.remember("k", "x", kind=MemoryKind.FACT, evidence=(), author="ada", at=1.0)
    for invented in ("run:run-99", "config:run-7/no.such.field", "hunk:/train.py", "note:1"):
        ref = EvidenceRef.parse(invented)
        with pytest.raises(UserInputError, match="not stored"):
            store.memory.remember("k", "x", kind=MemoryKind.FACT, evidence=(CASE, ref), author="ada", at=1.0)
    assert store.memory.line("k") == []
    with pytest.raises(NotFound):
        store.memory.retire("k", "x", author="ada", at=1.0)


def test_of_two_who_write_at_the_same_time_one_line_comes_out(store: Store) -> None:
    refused: list[UserInputError] = []

    def write(number: int) -> None:
        try:
            remember(store, f"text {number}")
        except UserInputError as error:
            refused.append(error)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    line = store.memory.line("eval/seeds")
    assert len(line) + len(refused) == 8
    assert [each.supersedes for each in line] == [None, *(each.id for each in line[:-1])]


@pytest.mark.parametrize("change", ["UPDATE memory_entry SET text = 'x'", "DELETE FROM memory_entry"])
def test_the_database_itself_refuses_to_change_memory(store: Store, database_url: str, change: str) -> None:
    import psycopg

    remember(store, "two seeds")
    with psycopg.connect(database_url) as connection, pytest.raises(psycopg.errors.IntegrityConstraintViolation):
        connection.execute(change)
