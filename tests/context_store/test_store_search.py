"""Hybrid search: the same words, near meaning, filters, vectors that follow the text."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import psycopg
import pytest
from training_log import make_run

from context_store import Store, open_store
from context_store.embedding import DIMENSIONS, HashedEmbedder, Vectors, to_dimensions
from context_store.records import Anomaly, NegativeResult, SearchFilter, Suspect, TextKind, TimelineEvent
from contracts.enums import CauseKind, InvestigationState, Scope, TimelineKind, Verdict
from contracts.evidence import EvidenceRef

RUN = EvidenceRef(kind="run", id="rr-1")


class Counting(HashedEmbedder):
    """The real embedder, and how many texts it was given."""

    def __init__(self, name: str = "counting") -> None:
        self.name = name
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.texts += texts
        return super().embed(texts)


@pytest.fixture
def embedder() -> Counting:
    return Counting()


@pytest.fixture
def store(database_url: str, embedder: Counting) -> Iterator[Store]:
    with open_store(database_url, embedder=embedder) as opened:
        make_run(opened)
        make_run(opened, RUN.id)
        yield opened


def change(store: Store, step: int, title: str, key: str = "", kind: TimelineKind = TimelineKind.CONFIG) -> str:
    detail = {"key": key, "before": 0.01, "after": float("nan"), "source": "declared"} if key else {}
    event = store.timeline.add(
        TimelineEvent(run_id="run-1", segment=0, step=step, kind=kind, title=title, detail=detail)
    )
    return f"event:{event.id}"


def anomaly(store: Store, statement: str, series: tuple[str, ...], onset: tuple[int, int]) -> Anomaly:
    return store.knowledge.put_anomaly(
        Anomaly(
            run_id="run-1", kind="level_shift", series=series, onset=onset, severity=3.0, statement=statement,
            evidence=(RUN,),
        )
    )  # fmt: skip


def negative(claim: str, **more: object) -> NegativeResult:
    fields: dict[str, object] = {
        "claim": claim, "intervention": "re-run", "context": {}, "expected": "", "observed": "unchanged",
        "reason_class": "no_effect", "reason": "departs at the same step", "evidence": (RUN,), "reopen_if": "",
        "investigation_id": None, "actor": "loop", "project_id": "p",
    }  # fmt: skip
    return NegativeResult(**fields | more)  # type: ignore[arg-type]


def references(store: Store, text: str, **chosen: object) -> list[str]:
    return [str(hit.reference) for hit in store.search.find(text, SearchFilter(**chosen))]  # type: ignore[arg-type]


def test_every_kind_of_text_is_found_by_its_words_at_once(store: Store) -> None:
    """Shows R801-2.1: nothing has to be indexed first."""
    change_ref = change(store, 100, "optim.router.lr 0.01 -> 0.02", "optim.router.lr")
    note_ref = change(store, 5, "the cluster was moved to another hall", kind=TimelineKind.NOTE)
    found = anomaly(store, "layers 5 and 7 depart", ("max_vio/layers.5", "max_vio/layers.7"), (180, 195))
    store.knowledge.open_investigation("case-1", "run-1", [found.id], "experts starve", at=1.0)
    excluded = store.negatives.add(negative("weight decay on norms shrinks embeddings"))
    for question, reference in [
        ("router lr", change_ref),
        ("who moved the cluster", note_ref),
        ("departing max_vio of layer 7", f"anomaly:{found.id}"),
        ("starving experts", "investigation:case-1"),
        ("is the norm decayed", f"negative:{excluded.id}"),
    ]:
        assert references(store, question)[0] == reference, question
    assert references(store, "   ") == []


def test_a_hunk_is_found_by_identifier_symbol_and_subject(store: Store, tmp_path: Path) -> None:
    commit_file(tmp_path, "base", "class Router:\n    def shared_load(self):\n        return 1.0\n")
    body = "class Router:\n    def shared_load(self):\n        penaltyScale = 8.0\n        return penaltyScale\n"
    commit = commit_file(tmp_path, "balance: count in shares", body)
    store.code.ingest("p", tmp_path)
    for question in ("penalty_scale", "balance counts what?"):
        (hit, *_) = store.search.find(question)
        assert str(hit.reference) == f"hunk:{commit[:12]}/src/my%20balance.py#3..5"
    assert hit.project_id == "p"
    assert references(store, "penalty", field="Router.shared_load") != []
    assert references(store, "penalty", field="Router.other") == []


def test_a_field_finds_what_did_not_hold_and_what_is_suspected(store: Store) -> None:
    excluded = store.negatives.add(negative("momentum spoils it", context={"optim.router.lr": 0.02, "x": float("nan")}))
    store.negatives.add(negative("momentum of others spoils it", context={"optim.routers": 0.02}))
    store.knowledge.open_investigation("case-1", "run-1", [], "momentum spoils it", at=1.0)
    suspect = Suspect(
        investigation_id="case-1", key="launch:optim.router.lr", cause_kind=CauseKind.CONFIG, title="t", commits=(),
        evidence=(RUN,), score=1.0, rank=1,
    )  # fmt: skip
    store.knowledge.put_suspect(suspect)
    both = {f"negative:{excluded.id}", "investigation:case-1"}
    for field in ("optim.router", "optim.router.lr"):
        assert set(references(store, "momentum spoils", field=field)) == both
    assert references(store, "momentum spoils", field="optim.rout") == []
    store.knowledge.put_suspect(dataclasses.replace(suspect, status=Verdict.REFUTED))
    assert references(store, "momentum spoils", field="optim.router") == [f"negative:{excluded.id}"]


def commit_file(repository: Path, subject: str, text: str) -> str:
    """Write src/my balance.py and commit it; returns the hash."""

    def git(*arguments: str) -> str:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments]
        return subprocess.run(command, cwd=repository, check=True, capture_output=True, text=True).stdout.strip()

    (repository / "src").mkdir(exist_ok=True)
    (repository / "src" / "my balance.py").write_text(text)
    git("init", "-q")
    git("add", "-A")
    git("commit", "-q", "-m", subject)
    return git("rev-parse", "HEAD")


def test_filters_exclude_and_say_so_by_finding_nothing(store: Store) -> None:
    early = change(store, 100, "optim.router.lr 0.01 -> 0.02", "optim.router.lr")
    late = change(store, 900, "optim.head.lr 0.01 -> 0.02", "optim.head.lr")
    found = anomaly(store, "the lr looks wrong in one layer", ("lr/layers.15",), (500, 510))
    assert set(references(store, "lr")) == {early, late, f"anomaly:{found.id}"}
    assert references(store, "lr", kinds=(TextKind.ANOMALY,)) == [f"anomaly:{found.id}"]
    assert references(store, "lr", layer=15) == [f"anomaly:{found.id}"]
    assert references(store, "lr", layer=1) == []
    assert references(store, "lr", field="optim.router") == [early]
    assert references(store, "lr", field="optim.rout") == [], "whole parts only"
    assert set(references(store, "lr", lo=505)) == {late, f"anomaly:{found.id}"}
    assert references(store, "lr", hi=499) == [early]
    assert references(store, "lr", outcome="level_shift") == [f"anomaly:{found.id}"]
    assert references(store, "lr", run_id="run-2") == []
    assert references(store, "lr", project_id="q") == []


def test_vectors_are_made_once_and_again_only_for_what_changed(store: Store, embedder: Counting) -> None:
    found = anomaly(store, "experts are unbalanced", ("max_vio/layers.1",), (10, 12))
    store.knowledge.open_investigation("case-1", "run-1", [found.id], "unbalanced experts", at=1.0)
    for step in range(5):
        change(store, step, f"note number {step}", kind=TimelineKind.NOTE)
    assert store.search.embed(limit=3) == 3
    assert store.search.embed() == store.search.coverage().num_texts - 3
    assert store.search.embed() == 0
    before = len(embedder.texts)
    store.knowledge.set_investigation("case-1", state=InvestigationState.CLOSED)
    assert store.search.embed() == 0, "its text did not change"
    store.knowledge.set_investigation("case-1", verdict=Verdict.PROVEN, scope=Scope.THIS_RUN, statement="it was the lr")
    assert store.search.embed() == 1
    assert embedder.texts[before:] == [
        "unbalanced experts. it was the lr. max vio, maximum violation, imbalance, badly balanced, uneven"
    ]
    with open_store(store.url, embedder=Counting("another")) as other:
        assert other.search.coverage().num_embedded == 0
        assert other.search.nearest("balancing the experts") == [], "vectors of another embedder are never compared"
        assert other.search.embed() == other.search.coverage().num_texts
        assert str(other.search.nearest("expert unbalance")[0].reference) in (
            f"anomaly:{found.id}",
            "investigation:case-1",
        )


def test_a_text_is_found_by_meaning_where_no_word_is_shared(store: Store) -> None:
    """With hashed words: by pieces of words. Both lists are named in the hit."""
    ref = change(store, 1, "rebalancing of experts", kind=TimelineKind.NOTE)
    change(store, 2, "the cluster was moved", kind=TimelineKind.NOTE)
    assert references(store, "unbalanced") == [], "there is no vector yet"
    store.search.embed()
    hit, *_ = store.search.find("unbalanced")
    assert (str(hit.reference), hit.by_words, hit.by_meaning) == (ref, None, 1)
    hit, *_ = store.search.find("experts")
    assert (str(hit.reference), hit.by_words, hit.by_meaning) == (ref, 1, 1)
    assert hit.score == pytest.approx(2 / 61)


def test_one_of_many_alike_does_not_hide_what_stands_alone(store: Store) -> None:
    """By meaning: of texts that differ by a number, none was meant more than the others."""
    for step in range(40):
        change(store, step, f"dropout of the evaluation {step + 100} -> {step + 300}")
    alone = change(store, 50, "dropout was on in evaluation", kind=TimelineKind.NOTE)
    store.search.embed()
    question = "dropout during evaluation"
    hits = {str(hit.reference): hit for hit in store.search.find(question, limit=60)}
    assert hits[alone].by_meaning == 1
    similarities = [hit.similarity for hit in hits.values() if hit.similarity is not None]
    assert hits[alone].similarity < max(similarities)  # type: ignore[operator]
    assert str(store.search.nearest(question, limit=1)[0].reference) != alone, "nearest is nearest"


def test_words_that_many_texts_have_find_those_that_have_them_together(store: Store) -> None:
    """What is looked at follows from how frequent words are, once the database knows."""
    with psycopg.connect(store.url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO timeline_event (run_id, segment, step, kind, title, detail, at) SELECT 'run-1', 0, n, 'note', "
            "CASE WHEN n = 4321 THEN 'spike and plateau' WHEN n % 2 = 0 THEN 'spike ' || n ELSE 'plateau ' || n END, "
            "'{}', now() FROM generate_series(1, 6000) AS n"
        )
        connection.execute("ANALYZE search_text")
    hit, *_ = store.search.find("a plateau and a spike")
    assert (hit.title, hit.by_words) == ("spike and plateau", 1)
    hit, *_ = store.search.find("plateau 4001")
    assert hit.title == "plateau 4001"
    assert store.search.find("spike", SearchFilter(lo=11, hi=12))[0].title == "spike 12"


def test_deleting_a_run_deletes_its_texts(store: Store) -> None:
    change(store, 1, "a note to forget", kind=TimelineKind.NOTE)
    assert len(references(store, "forget")) == 1
    store.retention.delete_run("run-1")
    assert store.search.coverage().num_texts == 0


def test_a_huge_text_is_stored_and_found_by_its_beginning(store: Store) -> None:
    words = " ".join(f"word{i}" for i in range(200_000))
    stored = store.negatives.add(negative("a huge log", observed=words))
    assert store.negatives.get(stored.id).observed == words
    assert references(store, "word17") == [f"negative:{stored.id}"]


def test_vectors_of_other_models_fit_and_keep_their_angles() -> None:
    rng = np.random.default_rng(0)
    short, long = rng.standard_normal((4, 64)), rng.standard_normal((4, 1536))
    long[1] = long[0] + 0.3 * long[1]
    for vectors in (short, long):
        fitted = to_dimensions(vectors)
        assert fitted.shape == (4, DIMENSIONS)
        assert np.allclose(np.linalg.norm(fitted, axis=1), 1.0, atol=1e-5)
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        assert np.abs(fitted @ fitted.T - unit @ unit.T).max() < 0.2
    assert np.allclose(to_dimensions(short) @ to_dimensions(short).T, _cosines(short), atol=1e-5)


def _cosines(vectors: np.ndarray) -> np.ndarray:
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(unit @ unit.T)


def test_what_an_event_tells_in_its_details_is_found_and_readable(store: Store) -> None:
    """Values of the details are prose to search; their keys are not."""
    store.timeline.add(
        TimelineEvent(
            run_id="run-1", segment=0, step=1, kind=TimelineKind.NOTE, title="incident pub-01",
            detail={"proven_cause": "excluding groups of nodes replaced the GPU", "tried": ["a reboot", "nothing"]},
        )
    )  # fmt: skip
    (hit, *_) = store.search.find("nodes replaced GPU", SearchFilter(kinds=(TextKind.NOTE,)))
    assert "excluding groups of nodes replaced the GPU" in hit.body
    assert "a reboot. nothing" in hit.body
    assert "proven_cause" not in hit.body
