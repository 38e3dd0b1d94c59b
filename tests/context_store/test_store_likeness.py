"""Duplicates and contradictions among negative results, and what took whose place. Shows R801-2.5, R801-2.14."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from pathlib import Path

import pytest
from proposal_at_hand import NEW
from training_log import make_run

from context_store import Store
from context_store.importers import Options, discover
from context_store.importers import store as bring
from context_store.negatives import hash_of_diff
from context_store.records import Anomaly, EffectSize, NegativeResult, Project, VerdictRecord
from contracts.enums import Scope, Verdict
from contracts.errors import NotFound, UserInputError
from contracts.evidence import EvidenceRef

RUN = EvidenceRef(kind="run", id="rr-1")
DIFF = """diff --git a/balance.py b/balance.py
index 3f2a9c..aa00bb 100644
--- a/balance.py
+++ b/balance.py
@@ -10,3 +10,3 @@ def penalty():
     unchanged = 1
-    scale = 1.0
+    scale =  8.0
"""


@pytest.fixture
def store(store: Store) -> Store:
    """With the run that the evidence names."""
    make_run(store, RUN.id)
    return store


def negative(claim: str, **more: object) -> NegativeResult:
    fields: dict[str, object] = {
        "claim": claim, "intervention": claim, "context": {}, "expected": "a lower loss", "observed": "no change",
        "reason_class": "no_gain", "reason": "one run did not beat the best before it", "evidence": (RUN,),
        "reopen_if": "", "investigation_id": None, "actor": "anna",
    }  # fmt: skip
    return NegativeResult(**fields | more)  # type: ignore[arg-type]


def test_everything_that_was_tried_comes_back_whole(store: Store) -> None:
    effect = EffectSize(what="val_bpb", value=0.0007, lo=-0.0001, hi=0.0015, unit="bits per byte, lower is better")
    whole = negative(
        "half the batch", scale="d12, 1.3 B tokens", data="FineWeb 2026-03", code_version="7d047e4",
        context={"optim.lr": 0.02}, expected_effect=dataclasses.replace(effect, value=-0.002), observed_effect=effect,
        diff_hash=hash_of_diff(DIFF),
    )  # fmt: skip
    stored = store.negatives.add(whole)
    assert store.negatives.get(stored.id) == dataclasses.replace(whole, id=stored.id, at=stored.at)
    assert store.negatives.add(whole).id == stored.id
    with pytest.raises(NotFound, match="no negative result 99"):
        store.negatives.get(99)


def test_a_diff_is_the_same_whatever_its_line_numbers_and_blanks() -> None:
    moved = DIFF.replace("-10,3 +10,3", "-110,3 +190,3").replace("scale =  8.0", "scale = 8.0").replace("3f2a9c", "1")
    assert hash_of_diff(moved) == hash_of_diff(DIFF) != ""
    for other in (DIFF.replace("8.0", "9.0"), DIFF.replace("b/balance.py", "b/loader.py")):
        assert hash_of_diff(other) != hash_of_diff(DIFF)
    assert hash_of_diff("--- a/x\n+++ b/x\n@@ -1 +1 @@\n unchanged\n") == hash_of_diff("") == ""


def test_a_diff_is_known_by_the_commit_or_the_proposal_that_was_tried(store: Store, tmp_path: Path) -> None:
    """Whoever stores it: the same change under another name is the same change."""
    folder = tmp_path / "repository"
    commits = [commit_scale(folder, value) for value in ("1.0", "8.0", "1.0", "8.0")]
    store.projects.put(Project(id="p", path=str(folder)))
    store.code.ingest("p", folder)
    shown = subprocess.run(["git", "-C", str(folder), "show", commits[1]], capture_output=True, text=True, check=True)
    by_commit = store.negatives.add(negative("scale", context={"commit": commits[1]}, project_id="p"))
    assert by_commit.diff_hash == hash_of_diff(shown.stdout) != ""
    named = EvidenceRef(kind="commit", id=commits[3])
    again = store.negatives.add(negative("other words for it", evidence=(named,), project_id="p"))
    assert again.diff_hash == by_commit.diff_hash
    assert by_commit.id in [each.negative.id for each in store.likeness.duplicates(again) if each.is_same]
    proposal = store.proposals.put(dataclasses.replace(NEW, investigation_id=None, diff=shown.stdout))
    declined = store.negatives.add(negative("declined", evidence=(EvidenceRef(kind="proposal", id=proposal.id),)))
    assert declined.diff_hash == by_commit.diff_hash
    assert store.negatives.add(negative("nothing of code")).diff_hash == ""


def commit_scale(folder: Path, value: str) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "balance.py").write_text(f"def scale():\n    return {value}\n")
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", f"scale {value}"]):
        subprocess.run([*git, *command], check=True)
    return subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()


def test_duplicates_say_why_and_other_numbers_are_another_experiment(store: Store) -> None:
    same_diff = store.negatives.add(negative("count the load in shares", diff_hash=hash_of_diff(DIFF)))
    same_words = store.negatives.add(negative("Matrix LR 0.04 to 0.045"))
    similar = store.negatives.add(negative("matrix LR 0.04 to 0.035"))
    store.negatives.add(negative("weight tying of embedding and head"))
    store.search.embed()
    asked = negative("matrix LR  0.04 to 0.045", diff_hash=hash_of_diff(DIFF.replace("-10,3", "-99,3")))
    found = store.likeness.duplicates(asked)
    assert [(each.negative.id, each.is_same) for each in found] == [
        (same_words.id, True), (same_diff.id, True), (similar.id, False),
    ]  # fmt: skip
    assert [each.why for each in found] == [
        "the same words and numbers", "the same change of the code", "a similar idea; other numbers: 0.035, 0.04",
    ]  # fmt: skip
    assert store.likeness.duplicates(same_words) == [
        each for each in store.likeness.duplicates(same_words) if each.negative.id != same_words.id
    ]
    assert store.likeness.duplicates(negative("curriculum over sequence lengths")) == []


def test_contradictions_are_shown_with_what_differs_and_nothing_is_merged(store: Store) -> None:
    make_run(store)
    anomaly = store.knowledge.put_anomaly(
        Anomaly(
            run_id="run-1", kind="level_shift", series=("max_vio",), onset=(1, 2), severity=1.0, statement="rises",
            evidence=(RUN,),
        )
    )  # fmt: skip
    store.knowledge.open_investigation("case-2", "run-1", [anomaly.id], "max_vio rises", at=1.0)
    verdict = store.knowledge.put_verdict(
        VerdictRecord(
            investigation_id="case-2", verdict=Verdict.PROVEN, scope=Scope.THIS_RUN, suspect_keys=("commit:abc",),
            num_reruns=4, effect=1.0, interval=(0.5, 1.5), statement="it was abc", would_overturn="", evidence=(RUN,),
        )
    )  # fmt: skip
    excluded = store.negatives.add(
        negative("abc causes: grad_norm spikes", context={"commit": "abc", "anomaly_kind": "spike", "run": "run-0"})
    )
    (found,) = store.likeness.contradictions(excluded)
    assert str(found.reference) == f"verdict:{verdict.id}"
    assert found.differs == ("anomaly_kind: level_shift, here spike",)
    assert "scope this_run" in found.statement
    worse = EffectSize(what="val_bpb", value=0.004, lo=0.003, hi=0.005)
    better = EffectSize(what="val_bpb", value=-0.002, lo=-0.003, hi=-0.001)
    vague = EffectSize(what="val_bpb", value=0.1, lo=-1.0, hi=1.0)
    small = store.negatives.add(negative("clip gradients at 1.0", scale="d12", observed_effect=worse))
    large = store.negatives.add(negative("clip the gradients at 1.0", scale="d20", observed_effect=better))
    store.negatives.add(negative("gradients clipped at 1.0", scale="d4", observed_effect=vague))
    store.search.embed()
    (other,) = store.likeness.contradictions(small)
    assert str(other.reference) == f"negative:{large.id}"
    assert other.differs == ("scale: d20, here d12",)
    assert "-0.002 (-0.003 to -0.001), here val_bpb +0.004" in other.statement
    assert len(store.negatives.list()) == 4


def test_what_was_kept_later_stands_against_what_was_discarded(store: Store, tmp_path: Path) -> None:
    rows = [
        "a1\t0.9738\t60\tkeep\tbaseline", "a2\t0.9739\t60\tdiscard\tembedding LR 0.8 to 0.9",
        "a3\t0.9699\t60\tkeep\tembedding LR 0.8 to 0.9 (with WD)", "a4\t0.9740\t60\tdiscard\tembedding LR 0.8 to 1.0",
    ]  # fmt: skip
    table = tmp_path / "results.tsv"
    table.write_text("\n".join(["commit\tval_bpb\tmemory_gb\tstatus\tdescription", *rows]) + "\n")
    import_file(store, table)
    store.search.embed()
    first, second = store.negatives.list()
    (found,) = store.likeness.contradictions(first)
    assert found.statement == "keep: embedding LR 0.8 to 0.9 (with WD)"
    assert found.reference.kind == "event"
    assert store.likeness.contradictions(second) == [], "1.0 was not kept"


def test_an_imported_incident_says_whether_its_cause_was_provable(store: Store, tmp_path: Path) -> None:
    incident = {
        "id": "pub-1", "symptom": "throughput drops", "affected_metric": ["TFLOPs"], "proven_cause": "one slow GPU",
        "cause_kind": "hardware", "negative_results": [{"tried": "network test", "why_it_failed": "all nodes equal"}],
    }  # fmt: skip
    unknown = incident | {
        "id": "pub-2",
        "symptom": "loss spikes",
        "proven_cause": "not provable",
        "negative_results": [],
    }
    idea = {
        "id": "n-1", "idea": "clip gradients", "outcome": "rejected", "reason": "noise", "scale": ["d12", "d20"],
        "numbers": {"note": "x", "val_bpb": [0.98, 0.99]}, "source": {"commit": "92d63d4"},
    }  # fmt: skip
    (tmp_path / "incidents.jsonl").write_text(f"{json.dumps(incident)}\n{json.dumps(unknown)}\n")
    (tmp_path / "ideas.jsonl").write_text(f"{json.dumps(idea)}\n")
    import_file(store, tmp_path)
    hits = {hit.title: hit.outcome for hit in store.search.find("incident throughput loss spikes")}
    assert hits["incident pub-1: throughput drops"] == "hardware"
    assert hits["incident pub-2: loss spikes"] == "not provable"
    clip = next(each for each in store.negatives.list() if each.claim == "clip gradients")
    assert (clip.scale, clip.code_version) == ("d12, d20", "92d63d4")
    assert clip.observed_effect is not None
    assert clip.observed_effect.what == "val_bpb"
    assert clip.observed_effect.value == pytest.approx(0.01)


def test_what_was_superseded_stays_and_names_its_successor(store: Store) -> None:
    old, new = store.negatives.add(negative("fp8 on the head fails")), store.negatives.add(negative("fp8 works now"))
    assert store.negatives.supersede(old.id, new.id).superseded_by == new.id
    assert [each.superseded_by for each in store.negatives.list()] == [new.id, None]
    with pytest.raises(UserInputError, match="was itself superseded"):
        store.negatives.supersede(new.id, old.id)
    with pytest.raises(NotFound):
        store.negatives.supersede(old.id, 99)
    with pytest.raises(UserInputError, match="cannot take its own place"):
        store.negatives.supersede(new.id, new.id)


def test_what_was_done_and_where_counts_not_only_what_was_claimed(store: Store) -> None:
    """Shows R801-2.5: the vector is over claim, intervention and context."""
    claim = "it lowers the loss"
    warm = negative(claim, intervention="a warm-up of two thousand steps", context={"optim.group": "router"})
    stored = store.negatives.add(warm)
    store.negatives.add(negative(claim, intervention="documents packed without borders", data="scanned books"))
    store.search.embed()
    asked = negative("the loss gets lower", intervention="a warm-up of 2000 steps", context={"optim.group": "router"})
    assert [each.negative.id for each in store.likeness.duplicates(asked)] == [stored.id]
    measured = {**warm.context, "numbers.loss": 1.0, "numbers.gain": "none", "id": "n-1"}
    other_words = negative("it helps", intervention=warm.intervention, context=measured)
    (found,) = store.likeness.duplicates(other_words)
    assert (found.negative.id, found.is_same) == (stored.id, False)


def import_file(store: Store, path: Path) -> None:
    found, _ = discover(str(path))
    bring(list(found), store.url, Options(actor="anna"), clock=lambda: 1.0, tell=lambda _: None)
