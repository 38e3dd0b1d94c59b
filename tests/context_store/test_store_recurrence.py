"""An anomaly that was diagnosed before is recognised; a look-alike in other circumstances is only a hint.

Shows R801-2.11 (store side).
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from training_log import append, make_run, started

from context_store import Store
from context_store.records import Anomaly, Precedent, Suspect, TimelineEvent
from contracts.enums import CauseKind, Scope, TimelineKind, Verdict
from contracts.events import Scalar
from contracts.evidence import EvidenceRef

CONFIG = {"moe.num_experts": 8, "optim.router.lr": 0.01, "seed": 1, "log_every": 10}
RUN = EvidenceRef(kind="run", id="rr-1")


class World:
    """A project with a repository, runs of it, and one case of `old` that was proven."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store, self.folder = store, folder
        self.base = self.commit("1.0")
        self.culprit = self.commit("8.0")
        self.run("old", self.culprit)
        self.store.code.ingest("p", self.repository)

    @property
    def repository(self) -> Path:
        return self.folder / "repository"

    def commit(self, value: str) -> str:
        def git(*arguments: str) -> str:
            command = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments]
            return subprocess.run(command, cwd=self.repository, check=True, capture_output=True, text=True).stdout

        self.repository.mkdir(exist_ok=True)
        (self.repository / "balance.py").write_text(f"scale = {value}\n")
        git("init", "-q")
        git("add", "-A")
        git("commit", "-q", "-m", f"balance: scale {value}")
        return git("rev-parse", "HEAD").strip()

    def run(self, run_id: str, code: str, config: Mapping[str, Scalar] = CONFIG, **more: object) -> None:
        make_run(self.store, run_id, **more)
        append(self.folder / run_id, 0, started(run_id, code_version=code, config=dict(config)))
        self.store.ingest.ship(run_id, self.folder / run_id)

    def anomaly(self, run_id: str, layers: tuple[int, ...] = (5, 7), kind: str = "level_shift") -> Anomaly:
        series = tuple(f"max_vio/layers.{layer}" for layer in layers)
        return self.store.knowledge.put_anomaly(
            Anomaly(
                run_id=run_id, kind=kind, series=series, onset=(180, 195), severity=3.0,
                statement="experts of single layers starve", evidence=(RUN,),
            )
        )  # fmt: skip

    def diagnose(self, run_id: str, verdict: Verdict = Verdict.PROVEN) -> None:
        found = self.anomaly(run_id)
        case = f"case-{run_id}"
        self.store.knowledge.open_investigation(case, run_id, [found.id], "layers 5 and 7 starve", at=1.0)
        self.store.knowledge.put_suspect(
            Suspect(
                investigation_id=case, key=f"commit:{self.culprit}", cause_kind=CauseKind.CODE, title="scale 8.0",
                commits=(self.culprit,), evidence=(RUN,), score=1.0, rank=1, status=verdict, reason="reverting cures",
            )
        )  # fmt: skip
        self.store.knowledge.set_investigation(
            case, verdict=verdict, scope=Scope.THIS_RUN, statement="the scale of the penalty", cause_kind=CauseKind.CODE
        )

    def like(self, run_id: str, **more: object) -> list[Precedent]:
        return self.store.recurrence.like(self.anomaly(run_id, **more))  # type: ignore[arg-type]


@pytest.fixture
def world(store: Store, tmp_path: Path) -> World:
    return World(store, tmp_path)


def test_the_same_anomaly_in_the_same_circumstances_comes_with_its_diagnosis(world: World) -> None:
    world.diagnose("old")
    world.run("new", world.culprit, {**CONFIG, "seed": 2, "log_every": 1})
    (found,) = world.like("new")
    assert found.is_strong
    assert found.investigation_id == "case-old"
    assert found.diagnosis == "the scale of the penalty (proven, scope this_run)"
    assert found.differs == ()
    assert found.matched == (
        "the same finding (level_shift)",
        "the same statistics (max_vio)",
        "the same layers (5, 7)",
        "the same configuration (2 values)",
        "the proven cause, scale 8.0, is in this code",
    )
    assert str(found.evidence[0]) == "investigation:case-old"


def test_a_case_is_no_precedent_of_itself(world: World) -> None:
    world.diagnose("old")
    assert world.like("old") == []


def test_a_look_alike_in_other_circumstances_is_a_hint_that_says_what_differs(world: World) -> None:
    world.diagnose("old")
    world.run("fixed", world.base)
    world.run("larger", world.culprit, {**CONFIG, "moe.num_experts": 64})
    world.run("unknown", world.culprit, {})
    for run_id, said in [
        ("fixed", "the proven cause, scale 8.0, is not in this code"),
        ("larger", "moe.num_experts: 8, here 64"),
        ("unknown", "the configuration of one of them is not known"),
    ]:
        (found,) = world.like(run_id)
        assert not found.is_strong, run_id
        assert said in found.differs


def test_a_cause_that_was_taken_back_and_came_again_is_followed(world: World) -> None:
    """A revert leaves the cause in the history; re-applied it has another name."""
    world.diagnose("old")
    revert = world.commit("1.0")
    world.run("reverted", revert)
    world.store.code.ingest("p", world.repository)
    (found,) = world.like("reverted")
    assert not found.is_strong
    assert f"the proven cause, scale 8.0, is not in this code: taken back by {revert[:12]}" in found.differs
    again = world.commit("8.0")
    world.run("again", again)
    world.store.code.ingest("p", world.repository)
    (found,) = world.like("again")
    assert found.is_strong
    assert f"the proven cause, scale 8.0, is in this code again, as {again[:12]}" in found.matched


def test_another_finding_other_statistics_or_no_verdict_match_less_or_not_at_all(world: World) -> None:
    world.diagnose("old", Verdict.CANNOT_TELL)
    world.run("new", world.culprit)
    (found,) = world.like("new")
    assert not found.is_strong
    assert "the cause was not proven then (cannot_tell)" in found.differs
    assert world.like("new", kind="spike") == []
    elsewhere = world.anomaly("new").series[0].replace("max_vio", "grad_norm")
    other = Anomaly(
        run_id="new", kind="level_shift", series=(elsewhere,), onset=(1, 2), severity=1.0, statement="", evidence=(RUN,)
    )
    assert world.store.recurrence.like(other) == []


def test_an_imported_incident_is_a_hint_only(world: World) -> None:
    world.store.timeline.add(
        TimelineEvent(
            run_id="old", segment=0, step=1, kind=TimelineKind.NOTE,
            title="incident pub-9: experts of single layers starve, max_vio shifts to another level",
            detail={"proven_cause": "gate logits of all layers were joined", "outcome": "code"},
        )
    )  # fmt: skip
    world.store.search.embed()
    world.run("new", world.culprit)
    (found,) = world.like("new")
    assert (found.investigation_id, found.is_strong, found.diagnosis) == (None, False, "code")
    assert found.evidence[0].kind == "event"
