"""From a verdict, score or decision to raw slices in one query. Shows design section 3 and R801-2.14 (numbers link)."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path

import psycopg
import pytest
from training_log import Training, make_run, started, steps

from context_store import Store
from context_store.records import Anomaly, Diagnostic, NewScore, Suspect, VerdictRecord
from context_store.why import Why
from contracts.enums import CauseKind, DiagnosticKind, Scope, Verdict
from contracts.errors import NotFound, UserInputError
from contracts.events import CheckpointSaved, Effective
from contracts.evidence import EvidenceRef


@pytest.fixture
def verdict(training: Training) -> VerdictRecord:
    """A proven case: anomaly -> series, suspect -> a field with an odd name, diagnostic -> a re-run that departs."""
    store = training.store
    training.log(*steps(1, 20, {"max_vio/layers.5": 1.0}), Effective(step=10, values={"moe.größe 1/2": 3}))
    training.ship()
    store.projects.set_owner("p", "ada")
    make_run(store, "rr-1", parent_run_id="run-1", parent_step=10)
    evidence = (EvidenceRef(kind="series", id="run-1/max_vio%2Flayers.5", slice="10..15"),)
    found = store.knowledge.put_anomaly(
        Anomaly(
            run_id="run-1",
            kind="level_shift",
            series=("max_vio/layers.5",),
            onset=(10, 15),
            severity=4.0,
            statement="layer 5 departs",
            evidence=evidence,
        )
    )
    store.knowledge.open_investigation("case-1", "run-1", [found.id], "layer 5 departs", at=1.0)
    key = "config:moe.größe 1/2"
    store.knowledge.put_suspect(
        Suspect(
            investigation_id="case-1",
            key=key,
            cause_kind=CauseKind.CONFIG,
            title="moe.größe 1/2 -> 3",
            commits=(),
            evidence=(EvidenceRef(kind="config", id="run-1/moe.gr%C3%B6%C3%9Fe%201%2F2", slice="0"),),
            score=1.0,
            rank=0,
        )
    )
    store.knowledge.put_diagnostic(
        Diagnostic(
            investigation_id="case-1",
            key="revert",
            kind=DiagnosticKind.REVERT,
            label="without it",
            suspect_keys=(key,),
            run_id="rr-1",
            effect_key="",
        )
    )
    store.ledger.append("loop", "measure", "investigation:case-1", {}, [EvidenceRef(kind="run", id="rr-1")], at=2.0)
    return store.knowledge.put_verdict(
        VerdictRecord(
            investigation_id="case-1",
            verdict=Verdict.PROVEN,
            scope=Scope.THIS_RUN,
            suspect_keys=(key,),
            num_reruns=4,
            effect=1.0,
            interval=None,
            statement="it was moe.größe",
            would_overturn="a re-run",
            evidence=(EvidenceRef(kind="run", id="rr-1"), EvidenceRef(kind="anomaly", id=str(found.id))),
        )
    )


def ways(why: Why) -> set[tuple[str, str, str]]:
    return {(why.nodes[link.source].kind, link.role, why.nodes[link.target].kind) for link in why.links}


def test_a_verdict_leads_to_the_points_the_field_and_the_logs(store: Store, verdict: VerdictRecord) -> None:
    why = store.why.of("verdict", str(verdict.id))
    assert why.nodes[0].title == "proven (this_run): it was moe.größe"
    raw = {(node.kind, node.id, part) for node, part in why.raw_slices}
    assert {
        ("series", "run-1/max_vio/layers.5", "10..15"),
        ("config", "run-1/moe.größe 1/2", "0"),
        ("log", "/runs/run-1", ""),
        ("log", "/runs/rr-1", ""),
    } <= raw
    assert {
        ("verdict", "rests on", "run"),
        ("verdict", "is about", "suspect"),
        ("investigation", "is in the ledger as", "ledger"),
        ("ledger", "rests on", "run"),
        ("diagnostic", "ran as", "run"),
        ("run", "was forked from", "run"),
    } <= ways(why)
    assert [node.ref for node in why.missing] == ["commit:c0ffee"], "the code version was never ingested"
    assert not why.truncated
    assert {node.owner for node in why.nodes if node.kind in ("verdict", "anomaly", "suspect", "run")} == {"ada"}


def test_each_object_comes_once_though_the_links_go_round(store: Store, verdict: VerdictRecord) -> None:
    entry = store.ledger.append("ada", "read", f"verdict:{verdict.id}", {}, verdict.evidence, at=3.0)
    why = store.why.of("ledger", str(entry.id))
    names = [(node.kind, node.id) for node in why.nodes]
    assert len(names) == len(set(names))
    assert ("ledger", "is about", "verdict") in ways(why)
    assert ("verdict", "is in the ledger as", "ledger") in ways(why)


def test_a_bound_is_said_and_unknown_things_are_refused(store: Store, verdict: VerdictRecord) -> None:
    few = store.why.of("verdict", str(verdict.id), max_nodes=3)
    assert (len(few.nodes), few.truncated) == (3, True)
    with pytest.raises(UserInputError, match="no kind") as caught:
        store.why.of("rumour", "1")
    assert "verdict" in caught.value.remedy
    for kind, name in (("verdict", "999"), ("verdict", "not a number"), ("run", "rr-2"), ("hunk", "c0ffee/a.py")):
        with pytest.raises(NotFound):
            store.why.of(kind, name)


def test_more_links_of_one_role_than_are_shown_are_said(store: Store, verdict: VerdictRecord) -> None:
    shown = store.why.of("run", "run-1")
    assert not shown.truncated
    for n in range(201):
        suspect = store.knowledge.suspects("case-1")[0]
        store.knowledge.put_suspect(dataclasses.replace(suspect, key=f"k{n}", evidence=()))
    assert store.why.of("investigation", "case-1", max_nodes=10_000).truncated


def test_a_field_and_a_hunk_are_stored_or_not(store: Store, training: Training, tmp_path: Path) -> None:
    training.log(*steps(1, 2))
    training.ship()
    make_run(store, "fork", parent_run_id="run-1", parent_step=1)
    assert store.why.of("config", "run-1/moe.balance.coef").nodes[0].title == "moe.balance.coef = 0.01"
    for ref in ("fork/moe.balance.coef", "run-1/environment.python"):
        assert store.why.of("config", ref).nodes[0].title
    commit = committed(tmp_path / "code")
    store.code.ingest("p", tmp_path / "code")
    assert store.why.of("hunk", f"{commit[:12]}/train.py").nodes[0].title == "train.py in first"
    (tmp_path / "code" / "train.py").write_text("lr = 0.2\n")
    changed = store.code.ingest_working_tree("p", tmp_path / "code")
    assert changed is not None
    assert store.why.of("hunk", f"{changed.hash[:12]}/train.py").nodes[0].title
    for kind, name in (
        ("config", "run-1/no.such.field"), ("config", "run-1/environment.pyth"), ("config", "run-1/"),
        ("hunk", f"{commit[:12]}/other.py"), ("hunk", f"{commit[:6]}/train.py"), ("hunk", "/train.py"),
    ):  # fmt: skip
        with pytest.raises(NotFound):
            store.why.of(kind, name)


def committed(folder: Path) -> str:
    """A repository with one commit; its hash."""
    folder.mkdir()
    (folder / "train.py").write_text("lr = 0.1\n")
    git = ["git", "-C", str(folder), "-c", "user.name=Ada", "-c", "user.email=a@b.co"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *command], check=True)
    return subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()


def test_a_score_leads_to_its_checkpoint_its_training_and_its_outputs(training: Training) -> None:
    store = training.store
    training.log(*steps(1, 5))
    training.ship()
    weights, raw = (str(training.folder / name) for name in ("weights.bin", "arc.jsonl"))
    for name in (weights, raw):
        Path(name).write_text("x")
    score = store.evals.add(
        NewScore(
            project_id="p",
            run_id="run-1",
            segment=0,
            step=5,
            checkpoint=weights,
            recipe="c0ffee",
            benchmark="arc",
            metric="acc",
            protocol="multiple choice",
            harness="ours",
            value=0.5,
            owner="ada",
            raw=raw,
        )
    )
    why = store.why.of("score", str(score.id))
    assert ("output", raw) in {(node.kind, node.id) for node, _ in why.raw_slices}
    assert ("score", "was trained as", "run") in ways(why)
    assert ("score", "scores the weights", "weights") in ways(why)
    assert ("score", "was made by the recipe", "recipe") in ways(why)
    assert {("weights", weights), ("recipe", "c0ffee")} <= {(node.kind, node.title) for node in why.nodes}
    training.log(CheckpointSaved(step=5, path="/runs/run-1/step-5", sha256="sha-of-it", size_bytes=1))
    training.ship()
    assert ("score", "scores", "checkpoint") in ways(store.why.of("score", str(score.id)))
    assert ("score", "scores the weights", "weights") not in ways(store.why.of("score", str(score.id)))


def test_every_kind_of_reference_can_be_asked_and_answered(store: Store, verdict: VerdictRecord) -> None:
    """Each kind's SQL is sound: asked for something that is not there, it says so."""
    from context_store.why_links import KINDS

    for kind in KINDS.keys() - {"log", "output", "recipe", "weights"}:
        for name in ("123456", "a/b/c"):
            with pytest.raises(NotFound, match=f"no {kind}"):
                store.why.of(kind, name)


def test_percent_encoded_ids_are_read_as_written(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        for text, quoted in (("a b/ü%", "a%20b%2F%C3%BC%25"), ("plain", "plain"), ("50%", "50%"), ("", "")):
            assert connection.execute("SELECT unquoted(%s)", [quoted]).fetchone() == (text,)


def test_lookups_by_id(store: Store, verdict: VerdictRecord, training: Training) -> None:
    assert store.knowledge.verdict(verdict.id) == verdict
    (anomaly,) = store.knowledge.anomalies(run_id="run-1")
    assert store.knowledge.anomaly(anomaly.id) == anomaly
    training.log(started(segment=1, start_step=20, config={"a": 1}), segment=1)
    training.ship()
    for event in store.timeline.list("run-1"):
        assert store.timeline.get(event.id) == event
    for action in (store.knowledge.verdict, store.knowledge.anomaly, store.timeline.get):
        with pytest.raises(NotFound, match="12345"):
            action(12345)
