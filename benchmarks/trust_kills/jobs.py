"""What Lathe is asked to do during the storm, by a person who reviews through the API, and what came of it.

A *wave* is one job of each kind: a debug case with its re-runs and its fix, a dual loop, a notification, a patch on a
branch, and a training that is started, asked for a checkpoint, paused, let go on and stopped.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from benchmarks.place import Place
from benchmarks.trust_parts.project import SmallProject
from benchmarks.trust_parts.receiver import Receiver
from context_store import Store
from context_store.records import Amount, Effect, NewProposal, Proposal
from contracts.enums import EffectKind, EffectState, InvestigationState, Role, Stage
from contracts.errors import DatabaseUnavailable
from contracts.evidence import EvidenceRef
from control_plane.projects import register_project
from control_plane.trainings import TrainingRequest, follow
from control_plane.wiring import Lathe
from control_plane.worktrees import CodeVersion

FINISHED = frozenset({EffectState.DONE, EffectState.FAILED, EffectState.REFUSED})
_VALID_S = 24 * 3600.0
_AMOUNT = Amount(cpu_s=100.0, tokens=1000)
_CONTROLS = (EffectKind.CHECKPOINT_RUN, EffectKind.PAUSE_RUN, EffectKind.UNPAUSE_RUN, EffectKind.STOP_RUN)


@dataclass
class Person:
    """Reviews through the API and keeps a list, outside of the database, of what the API said was approved."""

    place: Place
    approved: list[str] = field(default_factory=list)

    def review(self) -> None:
        """Approve everything that waits; what does not answer is asked again the next time."""
        headers = {"Authorization": f"Bearer {self.place.secrets[Role.REVIEWER]}"}
        try:
            with httpx.Client(base_url=self.place.api, headers=headers, timeout=10) as api:
                answer = api.get("/proposals", params={"state": "open"})
                for each in answer.json()["proposals"] if answer.is_success else ():
                    decision = {"bound_hash": each["bound_hash"], "comment": "go"}
                    if api.post(f"/proposals/{each['id']}/approve", json=decision).is_success:
                        self.approved.append(each["id"])
        except httpx.HTTPError:
            pass

    def open_case(self, run_id: str) -> str | None:
        """The id the API acknowledged; None when it did not answer."""
        headers = {"Authorization": f"Bearer {self.place.secrets[Role.RESEARCHER]}"}
        try:
            answer = httpx.post(
                f"{self.place.api}/investigations", json={"run_id": run_id}, headers=headers, timeout=30
            )
        except httpx.HTTPError:
            return None
        return str(answer.json()["investigation"]["id"]) if answer.is_success else None


@dataclass(kw_only=True)
class Wave:
    """One job of each kind and how far it has come. `done`: outcomes by kind, without ids and times."""

    name: str
    case_id: str | None = None
    controls: int = 0  # that are done
    tries: int = 0
    outcome: dict[str, Any] = field(default_factory=dict)

    @property
    def run_id(self) -> str:
        return f"bad-{self.name}"

    @property
    def started_id(self) -> str:
        return f"started-{self.name}"

    @property
    def experiment_id(self) -> str:
        return f"experiment-{self.name}"

    def key(self, what: str) -> str:
        return f"job:{self.name}:{what}"


def train_bad_run(lathe: Lathe, small: SmallProject, wave: Wave) -> None:
    """60 steps of the good commit, then 60 of the bad one."""
    project = register_project(lathe.store, small.folder)
    wish = TrainingRequest(run_id=wave.run_id, project=project, commit=small.good, max_step=60, seed=1)
    follow(lathe.backend, lathe.shipper, lathe.trainings.begin(wish))
    follow(lathe.backend, lathe.shipper, lathe.trainings.go_on(wave.run_id, commit=small.bad, max_step=120))


@dataclass(frozen=True, kw_only=True)
class Desk:
    """Hands in the jobs and looks how they stand."""

    lathe: Lathe
    small: SmallProject
    person: Person
    receiver: Receiver

    @property
    def store(self) -> Store:
        return self.lathe.store

    def begin(self, wave: Wave) -> None:
        """All that needs no answer of the API. Safe to repeat."""
        self.store.experiments.open(wave.experiment_id, f"wave {wave.name}", "ada", time.time(), _AMOUNT)
        code = {"base": self.small.bad, "revert": [self.small.bad], "pick": []}
        version = CodeVersion(base=self.small.bad, revert=(self.small.bad,))
        diff = self.lathe.worktrees.materialise(self.small.folder, version).diff
        project_id = self.store.runs.get(wave.run_id).project_id
        self._propose(wave, EffectKind.NOTIFY, {"url": self.receiver.url, "text": wave.name})
        branch = f"lathe/job-{wave.name}"
        self._propose(wave, EffectKind.PATCH_CODE, {"project_id": project_id, "code": code, "branch": branch}, diff)
        start: dict[str, Any] = {"project_id": project_id, "run_id": wave.started_id, "code": {"base": self.small.good}}
        start |= {"max_step": 100_000, "overrides": {"step_s": 0.02}, "seed": 7}
        self._propose(wave, EffectKind.START_RUN, start)

    def push(self, wave: Wave) -> bool:
        """Do what comes next for each job; True when all of them are over. DatabaseUnavailable: ask again."""
        wave.case_id = wave.case_id or self.person.open_case(wave.run_id)
        self._control(wave)
        over = [self._case_over(wave), self._experiment_over(wave)]
        over += [self._effect_over(wave, kind) for kind in (EffectKind.NOTIFY, EffectKind.PATCH_CODE)]
        return all(over) and self._effect_over(wave, EffectKind.START_RUN)

    def _propose(
        self, wave: Wave, kind: EffectKind, payload: Mapping[str, Any], diff: str = "", title: str = ""
    ) -> Proposal:
        """The title tells one proposal from the other; base states differ, so that contents do too."""
        title = title or wave.key(kind)
        known = [each for each in self.store.proposals.list() if each.title == title]
        if known:
            return known[0]
        return self.store.proposals.put(
            NewProposal(
                investigation_id=None, kind=kind, title=title, payload=payload, diff=diff,
                base_state=f"commit {self.small.bad}, {title}", risk="low", verification="look",
                evidence=(EvidenceRef(kind="run", id=wave.run_id),), expires_at=time.time() + _VALID_S,
            )
        )  # fmt: skip

    def effect(self, title: str) -> Effect | None:
        """What the worker made of the proposal with this title once it was approved; None until then."""
        keys = [f"apply:{each.id}" for each in self.store.proposals.list() if each.title == title]
        found = [each for each in self.store.effects.list() if each.key in keys]
        return found[0] if found else None

    def _control(self, wave: Wave) -> None:
        """The next wish to the started training; one that came while a worker was being replaced is made again."""
        if wave.controls == len(_CONTROLS) or not self._trains(wave):
            return
        kind = _CONTROLS[wave.controls]
        title = wave.key(f"{kind}:{wave.tries}")
        self._propose(wave, kind, {"run_id": wave.started_id}, title=title)
        effect = self.effect(title)
        if effect is not None:
            wave.controls += effect.state is EffectState.DONE
            wave.tries += effect.state in FINISHED

    def _trains(self, wave: Wave) -> bool:
        started = self.effect(wave.key(EffectKind.START_RUN)) is not None
        return started and bool(self.store.series.names(wave.started_id))

    def _case_over(self, wave: Wave) -> bool:
        if wave.case_id is None:
            return False
        return self.store.knowledge.investigation(wave.case_id).state is InvestigationState.CLOSED

    def _experiment_over(self, wave: Wave) -> bool:
        return self.store.experiments.get(wave.experiment_id).stage is Stage.ENDED

    def _effect_over(self, wave: Wave, kind: EffectKind) -> bool:
        effect = self.effect(wave.key(kind))
        return effect is not None and effect.state in FINISHED


def outcome(desk: Desk, wave: Wave) -> dict[str, Any]:
    """What came of a wave, without anything that may differ between two calm ones: ids, times, costs."""
    store = desk.store
    assert wave.case_id is not None
    case = store.knowledge.investigation(wave.case_id)
    diagnostics = store.knowledge.diagnostics(wave.case_id)
    notified, patched, started = (
        desk.effect(wave.key(kind)) for kind in (EffectKind.NOTIFY, EffectKind.PATCH_CODE, EffectKind.START_RUN)
    )
    assert notified is not None
    assert patched is not None
    assert started is not None
    history = store.experiments.history(wave.experiment_id)
    return {
        "case": [str(case.verdict), str(case.scope), str(case.cause_kind), case.statement],
        "re-runs": sorted((each.label, each.measure, each.reading) for each in diagnostics),
        "case effects": sorted((e.kind.value, e.state.value) for e in store.effects.list(wave.case_id)),
        "run": series_hash(store, wave.run_id),
        "notification": notified.state.value,
        "patch": [patched.state.value, patched.result.get("commit")],
        "started": [started.state.value, wave.controls],
        "experiment": [(step.before.value, step.after.value, step.iteration, step.note) for step in history],
        "experiment spent": str(store.budgets.state(f"experiment:{wave.experiment_id}").used),
    }


def series_hash(store: Store, run_id: str) -> str:
    """Of every series' canonical points, bit for bit."""
    digest = hashlib.sha256()
    for name in store.series.names(run_id):
        data = store.series.read(run_id, name)
        digest.update(name.encode() + data.steps.tobytes() + data.values.tobytes())
    return digest.hexdigest()


def patiently(wave: Wave, desk: Desk) -> bool:
    """`Desk.push`, False while the database is away."""
    try:
        return desk.push(wave)
    except DatabaseUnavailable:
        return False


def branch_log(small: SmallProject, branch: str) -> list[str]:
    """Lines of the branch's reflog."""
    path = Path(small.folder) / ".git" / "logs" / "refs" / "heads" / branch
    return path.read_text().splitlines() if path.exists() else []
