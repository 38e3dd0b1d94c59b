"""Ledger, live feed, tokens, and many producers at once. Shows R801-2.1."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import psycopg
import pytest
from training_log import append, make_run, started, steps

from context_store import Store
from contracts.enums import Role
from contracts.errors import UserInputError
from contracts.evidence import EvidenceRef

PRODUCER = """
import sys
from pathlib import Path
from context_store import open_store
from context_store.records import NegativeResult, TimelineEvent
from contracts.enums import TimelineKind
from contracts.evidence import EvidenceRef
kind, url, folder = sys.argv[1:]
with open_store(url) as store:
    for n in range(20):
        if kind == "training":
            store.ingest.ship("run-1", Path(folder))
        elif kind == "infrastructure":
            store.timeline.add(TimelineEvent(
                run_id="run-1", segment=0, step=n, kind=TimelineKind.ENVIRONMENT, title=f"driver {n}"))
        elif kind == "researcher":
            store.ledger.append("ada", "note", "run:run-1", {"n": n}, [], at=float(n))
        else:
            store.negatives.add(NegativeResult(
                claim=f"claim {n}", intervention="", context={}, expected="", observed="", reason_class="no_effect",
                reason="measured", evidence=(EvidenceRef(kind="run", id="run-1"),), reopen_if="",
                investigation_id=None, actor="agent", project_id="p"))
        store.activity.publish("progress", f"{kind} {n}")
"""


def test_four_producers_write_at_once_and_everything_can_be_asked(store: Store, tmp_path: Path) -> None:
    make_run(store)
    append(tmp_path, 0, started(), *steps(1, 200))
    command = [sys.executable, "-c", PRODUCER]
    kinds = ["training", "infrastructure", "researcher", "agent"]
    producers = [subprocess.Popen([*command, kind, store.url, str(tmp_path)]) for kind in kinds]
    assert [producer.wait() for producer in producers] == [0, 0, 0, 0]
    assert len(store.series.read("run-1", "loss").steps) == 200
    assert len(store.timeline.list("run-1")) == 20
    assert len(store.ledger.list(subject="run:run-1")) == 20
    assert len(store.negatives.search("claim measured", project_id="p", limit=100)) == 20
    feed = store.activity.after(0)
    assert len(feed) == 80
    assert [message.id for message in feed] == sorted(message.id for message in feed)


@pytest.mark.parametrize(
    "change", ["UPDATE ledger_entry SET actor = 'x'", "DELETE FROM ledger_entry", "TRUNCATE ledger_entry"]
)
def test_the_ledger_only_grows(store: Store, change: str) -> None:
    reference = EvidenceRef(kind="series", id="run-1/loss", slice="1..5")
    entry = store.ledger.append("loop", "measure", "investigation:case-1", {"n": 1}, [reference], at=7.0)
    with psycopg.connect(store.url) as connection, pytest.raises(psycopg.errors.IntegrityConstraintViolation):
        connection.execute(change)
    assert store.ledger.list() == [entry]
    assert entry.evidence == (reference,)
    with pytest.raises(UserInputError, match="not an evidence reference"):
        store.ledger.append("loop", "measure", "something", {}, [], at=7.0)


def test_following_the_feed_misses_nothing_while_many_publish(store: Store) -> None:
    def publish(name: int) -> None:
        for n in range(25):
            store.activity.publish("progress", f"{name}/{n}", investigation_id="case-1", detail={"n": n})

    threads = [threading.Thread(target=publish, args=[name]) for name in range(4)]
    for thread in threads:
        thread.start()
    seen: list[str] = []
    last = 0
    while any(thread.is_alive() for thread in threads) or store.activity.after(last):
        for message in store.activity.after(last, limit=7):
            seen.append(message.text)
            last = message.id
    assert len(seen) == 100
    assert len(set(seen)) == 100


def test_tokens_are_known_by_their_hash_only(store: Store) -> None:
    secret = store.tokens.create("ada", Role.REVIEWER)
    found = store.tokens.check(secret)
    assert found is not None
    assert (found.name, found.role) == ("ada", Role.REVIEWER)
    assert store.tokens.check(secret + "x") is None
    assert store.tokens.check("") is None
    with psycopg.connect(store.url) as connection:
        rows = connection.execute("SELECT t::text FROM token t").fetchall()
    assert all(secret not in row[0] and secret[6:] not in row[0] for row in rows)


def test_runs_are_listed_newest_first_in_pages(store: Store) -> None:
    for number in range(5):
        make_run(store, f"run-{number}")
    first = store.runs.list(limit=2)
    second = store.runs.list(limit=10, before=first[-1].id)
    assert [run.id for run in first + second] == ["run-4", "run-3", "run-2", "run-1", "run-0"]
    assert make_run(store, "run-0", name="other").name == "run-0", "creating again changes nothing"
    assert store.runs.list(project_id="q") == []
