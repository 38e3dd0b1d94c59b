"""A project with history, a run that went wrong after its second start, and its case, through the store's own doors.

Commit 2 of 3 breaks the balance of layers 1 and 3; the run was resumed onto it at step 40.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from context_store import Store
from context_store.records import (
    Anomaly,
    Diagnostic,
    NegativeResult,
    NewProposal,
    NewRun,
    Project,
    Suspect,
    VerdictRecord,
)
from contracts.enums import CauseKind, DiagnosticKind, EffectKind, InvestigationState, RunRole, Scope, Verdict
from contracts.events import DataRead, Event, Metrics, Scalar, SegmentStarted, encode, segment_folder
from contracts.evidence import EvidenceRef

NOW = 1_790_000_000.0
RUN, OTHER, CASE, PROJECT = "run-7", "run-8", "case-1", "moe"
CUT, LAST = 40, 80
SUBJECTS = ("log lines are shorter", "balance: keep less of the penalty", "readme: say how to start")


@dataclass(frozen=True, kw_only=True)
class Stored:
    """Hashes of the base and of the three commits; ids of what the case holds."""

    commits: tuple[str, ...]
    proposal_id: str
    verdict_id: int
    anomaly_id: int


@dataclass(frozen=True, kw_only=True)
class Texts:
    """What may be hostile: subjects of the three commits, the file of the second, the run's name, what is configured
    besides."""

    subjects: tuple[str, ...] = SUBJECTS
    file: str = "balance.py"
    run_name: str = RUN
    config: Mapping[str, Scalar] = field(default_factory=dict)


def lay_out(store: Store, folder: Path, texts: Texts = Texts()) -> Stored:
    """Everything."""
    commits = _history(folder / "project", texts)
    store.projects.put(Project(id=PROJECT, path=str(folder / "project")))
    store.code.ingest(PROJECT, folder / "project")
    _train(store, _run(RUN, texts.run_name, folder), (commits[0], commits[-1]), departs=True, also=texts.config)
    _train(store, _run(OTHER, OTHER, folder), (commits[0], commits[0]), departs=False, also={})
    return _case(store, commits)


def _history(project: Path, texts: Texts) -> tuple[str, ...]:
    project.mkdir(parents=True)
    hashes = []
    for number, subject in enumerate(("base", *texts.subjects)):
        name = ("recipe.py", "log.py", texts.file, "README.md")[number]
        (project / name).write_text(f"def part_{number}():\n    return {number}\n")
        _git(project, *(["init", "-q", "-b", "main"] if number == 0 else ["status"]))
        _git(project, "add", "--all")
        _git(project, "commit", "-q", "-m", subject)
        hashes.append(_git(project, "rev-parse", "HEAD"))
    return tuple(hashes)


def _git(project: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=Ada", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(project), *identity, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _run(run_id: str, name: str, folder: Path) -> NewRun:
    return NewRun(id=run_id, project_id=PROJECT, name=name, role=RunRole.TRAINING, folder=str(folder / run_id))


def _train(store: Store, run: NewRun, heads: tuple[str, str], *, departs: bool, also: Mapping[str, Scalar]) -> None:
    """`also`: configured besides from the second start on."""
    store.runs.create(run)
    run_id, folder = run.id, Path(run.folder)
    for number, head in enumerate(heads):
        start, end = (0, CUT) if number == 0 else (CUT, LAST)
        log = segment_folder(folder, number)
        log.mkdir(parents=True)
        begin = SegmentStarted(
            run_id=run_id, segment=number, start_step=start, code_version=head, seed=1, dp_size=2,
            start_checkpoint="" if number == 0 else "/c/step-40",
            config={
                "optim.router.lr": 0.01 if number == 0 or not departs else 0.02, "moe.balance.coef": 0.01,
                **(also if number else {}),
            },
            environment={"python": "3.11", "torch": "2.11" if number == 0 else "2.12"}, wall_time=NOW + number,
        )  # fmt: skip
        events: list[Event] = [begin]
        for step in range(start + 1, end + 1):
            events.append(Metrics(step=step, values=_values(step, departs)))
            events.append(DataRead(step=step, sample_hash=f"{step:064x}", position=8 * step))
        (log / "events.log").write_bytes(b"".join(encode(event) for event in events))
    store.ingest.ship(run_id, folder)


def _values(step: int, departs: bool) -> dict[str, float]:
    away = max(0, step - CUT) / 20 if departs else 0.0
    layers = {f"max_vio/layers.{n}": 0.3 + 0.01 * (step % 3) + (away if n in (1, 3) else 0.0) for n in range(4)}
    return {"loss": 4.0 - step / 100, **layers}


def _case(store: Store, commits: tuple[str, ...]) -> Stored:
    points = EvidenceRef(kind="series", id=f"{RUN}/max_vio%2Flayers.1", slice="41..44")
    anomaly = store.knowledge.put_anomaly(
        Anomaly(
            run_id=RUN, kind="layer_departure", series=("max_vio/layers.1", "max_vio/layers.3"), onset=(41, 44),
            severity=0.9, statement="max_vio of layers 1 and 3 departs from the other layers at steps 41-44",
            evidence=(points,),
        )
    )  # fmt: skip
    store.knowledge.open_investigation(CASE, RUN, [anomaly.id], "expert load of layers 1 and 3 runs away", NOW)
    _suspects(store, commits)
    rerun = EvidenceRef(kind="run", id=OTHER)
    verdict = store.knowledge.put_verdict(
        VerdictRecord(
            investigation_id=CASE, verdict=Verdict.PROVEN, scope=Scope.THIS_RUN, suspect_keys=(f"commit:{commits[2]}",),
            num_reruns=4, effect=-0.8, interval=(-0.9, -0.7),
            statement=f"{commits[2][:8]} {SUBJECTS[1]} causes the departure",
            would_overturn="a re-run without it that departs", evidence=(rerun,),
        )
    )  # fmt: skip
    store.knowledge.set_investigation(
        CASE, state=InvestigationState.WAITING_FOR_APPROVAL, verdict=Verdict.PROVEN, scope=Scope.THIS_RUN,
        statement=verdict.statement, cause_kind=CauseKind.CODE,
    )  # fmt: skip
    proposal = store.proposals.put(
        NewProposal(
            investigation_id=CASE, kind=EffectKind.RESUME_WITH_PATCH, title="resume without the balance commit",
            payload={"run_id": RUN}, diff="-a\n+b\n", base_state=commits[-1], risk="low", verification="max_vio falls",
            evidence=(EvidenceRef(kind="verdict", id=str(verdict.id)),), expires_at=NOW * 2,
        )
    )  # fmt: skip
    return Stored(commits=commits, proposal_id=proposal.id, verdict_id=verdict.id, anomaly_id=anomaly.id)


def _suspects(store: Store, commits: tuple[str, ...]) -> None:
    rerun = EvidenceRef(kind="run", id=OTHER)
    for rank, (key, title, status, reason) in enumerate(
        (
            (f"commit:{commits[2]}", f"{commits[2][:8]} {SUBJECTS[1]}", Verdict.PROVEN, "the revert cures"),
            (
                "launch:optim.router.lr",
                "optim.router.lr 0.01 -> 0.02 when resumed",
                Verdict.REFUTED,
                "it stays without",
            ),
            (
                f"commit:{commits[1]}",
                f"{commits[1][:8]} {SUBJECTS[0]}",
                Verdict.REFUTED,
                "the anomaly stays without it",
            ),
        ),
        start=1,
    ):
        store.knowledge.put_suspect(
            Suspect(
                investigation_id=CASE, key=key, cause_kind=CauseKind.CODE, title=title,
                commits=tuple(key.split(":")[1:]) if key.startswith("commit") else (), evidence=(rerun,),
                score=1.0 / rank, rank=rank, status=status, reason=reason,
            )
        )  # fmt: skip
    store.knowledge.put_diagnostic(
        Diagnostic(
            investigation_id=CASE, key="d-1", kind=DiagnosticKind.REVERT, label="without the balance commit",
            suspect_keys=(f"commit:{commits[2]}",), run_id=OTHER, effect_key="e-1", measure=0.1, reading="it recedes",
        )
    )  # fmt: skip
    store.negatives.add(_negative(rerun))


def _negative(rerun: EvidenceRef) -> NegativeResult:
    return NegativeResult(
        claim="optim.router.lr 0.01 -> 0.02 causes the departure of max_vio", intervention="re-run without it",
        context={"run": RUN}, expected="the anomaly recedes", observed="the anomaly stays",
        reason_class="excluded_by_rerun", reason="the anomaly stays without the router learning rate change",
        evidence=(rerun,), reopen_if="another optimizer", investigation_id=CASE, actor="loop:debug",
    )  # fmt: skip
