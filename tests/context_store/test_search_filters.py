"""Every filter of search means something for every kind of text: run, layer, field, time, steps, outcome."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from training_log import append, make_run, started, steps

from context_store import Store, open_store
from context_store.records import Anomaly, NegativeResult, SearchFilter, Suspect, TextKind, TimelineEvent
from contracts.enums import CauseKind, Scope, TimelineKind, Verdict
from contracts.evidence import EvidenceRef

COMMITTED, OPENED, FOUND, NOW = 1_000_000.0, 1_500_000.0, 2_000_000.0, 3_000_000.0
SOURCE = "def penalty(config):\n    return {}\n\n\ndef other():\n    return {}\n"


@dataclass(frozen=True, kw_only=True)
class Load:
    """The statistics that words about balance bear on."""

    name: str = "load"
    words: frozenset[str] = frozenset({"balance"})
    statistics: tuple[str, ...] = ("max_vio",)


@dataclass(frozen=True)
class World:
    """One text of each kind, all of run-1, and the commits: before, first, in run-1 and in run-2."""

    store: Store
    folder: Path
    commits: tuple[str, ...]
    texts: dict[TextKind, str]

    def found(self, **chosen: object) -> set[str]:
        hits = self.store.search.find("balance penalty", SearchFilter(**chosen), limit=60)  # type: ignore[arg-type]
        return {str(hit.reference) for hit in hits}

    def kinds(self, **chosen: object) -> set[TextKind]:
        return {kind for kind, reference in self.texts.items() if reference in self.found(**chosen)}


def commit(folder: Path, number: int) -> str:
    """A change of `penalty`, which reads moe.balance.coef, and of a line about layer 15."""
    (folder / "balance.py").write_text(SOURCE.format(f"config.moe.balance.coef * {number}  # of layers.15", number))
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    date = {"GIT_COMMITTER_DATE": f"@{int(COMMITTED) + number} +0000", "PATH": "/usr/bin:/bin"}

    def git(*arguments: str) -> str:
        command = ["git", *identity, *arguments]
        done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, env=date)
        return done.stdout.strip()

    git("init", "-q", "-b", "main")
    git("add", "-A")
    git("commit", "-q", "-m", f"balance penalty {number}")
    return git("rev-parse", "HEAD")


@pytest.fixture
def world(database_url: str, tmp_path: Path) -> Iterator[World]:
    with open_store(database_url, clock=lambda: NOW) as store:
        repository = tmp_path / "project"
        repository.mkdir()
        commits = tuple(commit(repository, number) for number in range(4))
        config = {"moe.balance.coef": 0.01}
        for run, versions in {"run-0": commits[:1], "run-1": commits[1:3], "run-2": commits[3:]}.items():
            make_run(store, run)
            folder = tmp_path / run
            for segment, version in enumerate(versions):
                begun = started(run, segment, 100 * segment, code_version=version, config=config)
                values = {"max_vio/layers.15": 1.0}
                append(folder, segment, begun, *steps(100 * segment + 1, 100 * segment + 3, values))
                store.ingest.ship(run, folder)
        store.code.ingest("p", repository)
        store.links.link("p", repository, (Load(),))
        yield World(
            store, tmp_path, commits, {TextKind.HUNK: f"hunk:{commits[2][:12]}/balance.py#2..3", **texts_of(store)}
        )


def texts_of(store: Store) -> dict[TextKind, str]:
    detail = {"key": "moe.balance.coef", "status": "changed"}
    change = TimelineEvent(
        run_id="run-1", segment=1, step=100, kind=TimelineKind.CONFIG, title="balance penalty of layer 15",
        detail=detail, at=NOW,
    )  # fmt: skip
    text = {"text": "see moe.balance.coef in layer 15", "outcome": "adopted"}
    note = dataclasses.replace(change, kind=TimelineKind.NOTE, title="penalty of balance was lowered", detail=text)
    events = [store.timeline.add(event) for event in (change, note)]
    reference = EvidenceRef(kind="run", id="run-1")
    anomaly = store.knowledge.put_anomaly(
        Anomaly(
            run_id="run-1", kind="level_shift", series=("max_vio/layers.15",), onset=(100, 103), severity=3.0,
            statement="the penalty no longer acts, balance is lost", evidence=(reference,), found_at=FOUND,
        )
    )  # fmt: skip
    store.knowledge.open_investigation("case-1", "run-1", [anomaly.id], "balance penalty is lost", at=OPENED)
    negative = store.negatives.add(
        NegativeResult(
            claim="the balance penalty is too small", intervention="a larger one", context={"moe.balance.coef": 1.0},
            expected="", observed="the same", reason_class="no_effect", reason="the same", evidence=(reference,),
            reopen_if="", investigation_id="case-1", actor="ada", at=FOUND,
        )
    )  # fmt: skip
    return {
        TextKind.CHANGE: f"event:{events[0].id}",
        TextKind.NOTE: f"event:{events[1].id}",
        TextKind.ANOMALY: f"anomaly:{anomaly.id}",
        TextKind.INVESTIGATION: "investigation:case-1",
        TextKind.NEGATIVE: f"negative:{negative.id}",
    }


ALL = set(TextKind)


def test_a_run_a_layer_and_a_field_find_every_kind(world: World) -> None:
    """Shows R801-2.7: changes of code and configuration, and what they did, by run, layer and field."""
    assert world.kinds(run_id="run-1") == ALL
    assert world.kinds(run_id="run-2") == set()
    assert world.kinds(layer=15) == ALL
    assert world.kinds(layer=1) == set()
    assert world.kinds(field="moe.balance.coef") == ALL - {TextKind.ANOMALY, TextKind.INVESTIGATION}
    assert world.kinds(field="moe.balance") == world.kinds(field="moe.balance.coef")
    assert world.kinds(field="moe.bal") == set()
    assert world.kinds(field="max_vio/layers.15") == {TextKind.ANOMALY, TextKind.INVESTIGATION, TextKind.NEGATIVE}
    assert world.kinds(run_id="run-1", layer=15, kinds=(TextKind.HUNK,)) == {TextKind.HUNK}


def test_a_change_of_code_belongs_to_the_runs_in_which_it_came_into_force(world: World) -> None:
    def of(**chosen: object) -> set[str]:
        found = world.found(kinds=(TextKind.HUNK,), **chosen)
        return {each.partition("/")[0].removeprefix("hunk:") for each in found}

    base, first, second, last = (each[:12] for each in world.commits)
    assert of(run_id="run-0") == {base}, "for the first run of a project all of its code is new"
    assert of(run_id="run-1") == {first, second}
    assert of(run_id="run-1", lo=50) == {second}, "at the first step of the segment"
    assert of(run_id="run-1", hi=50) == {first}
    assert of(run_id="run-2") == {last}
    make_run(world.store, "fork", parent_run_id="run-1", parent_step=100)
    begun = started("fork", 0, 100, code_version=world.commits[3])
    append(world.folder / "fork", 0, begun, *steps(101, 102))
    world.store.ingest.ship("fork", world.folder / "fork")
    assert of(run_id="fork") == {last}, "what came after the code of the run it was forked from"


def test_times_and_steps_keep_what_lies_inside(world: World) -> None:
    """Every kind has a time: findings when they were made, changes of code when they were committed."""
    assert world.kinds(since=0.0) == ALL
    assert world.kinds(until=NOW + 1) == ALL
    assert world.kinds(until=COMMITTED + 10) == {TextKind.HUNK}
    assert world.kinds(since=OPENED, until=OPENED) == {TextKind.INVESTIGATION}
    assert world.kinds(since=FOUND, until=FOUND) == {TextKind.ANOMALY, TextKind.NEGATIVE}
    assert world.kinds(since=NOW) == {TextKind.CHANGE, TextKind.NOTE}
    assert world.kinds(run_id="run-1", lo=100, hi=100) == ALL
    assert world.kinds(run_id="run-1", lo=104) == set()
    assert world.kinds(lo=100, hi=100) == ALL - {TextKind.HUNK}, "a change of code has a step only within a run"


def test_an_outcome_is_that_of_the_case_and_of_the_suspect(world: World) -> None:
    assert world.kinds(outcome="level_shift") == {TextKind.ANOMALY}
    assert world.kinds(outcome="no_effect") == {TextKind.NEGATIVE}
    assert world.kinds(outcome="adopted") == {TextKind.NOTE}
    assert world.kinds(outcome="proven") == set()
    run = EvidenceRef(kind="run", id="run-1")
    fields = {"title": "t", "evidence": (run,), "score": 1.0, "rank": 1, "status": Verdict.PROVEN}
    for key, commits in ((f"commit:{world.commits[2]}", world.commits[2:3]), ("launch:moe.balance.coef", ())):
        suspect = Suspect(investigation_id="case-1", key=key, cause_kind=CauseKind.CODE, commits=commits, **fields)  # type: ignore[arg-type]
        world.store.knowledge.put_suspect(suspect)
    world.store.knowledge.set_investigation("case-1", verdict=Verdict.PROVEN, scope=Scope.THIS_RUN)
    proven = {TextKind.HUNK, TextKind.CHANGE, TextKind.ANOMALY, TextKind.INVESTIGATION}
    assert world.kinds(outcome="proven") == proven
    assert world.kinds(outcome="refuted") == set()
    assert TextKind.INVESTIGATION in world.kinds(field="moe.balance.coef"), "its proven suspect is this field"


def test_layers_are_read_out_of_lists(world: World) -> None:
    fields = {"run_id": "run-1", "segment": 0, "step": 1, "kind": TimelineKind.NOTE, "detail": {}, "at": NOW}
    world.store.timeline.add(TimelineEvent(title="balance penalty in layers 3, 5 and 18", **fields))  # type: ignore[arg-type]
    for layer, count in ((3, 1), (5, 1), (18, 1), (8, 0), (1, 0)):
        assert len(world.found(layer=layer)) == count, layer
