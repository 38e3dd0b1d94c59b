"""A case as the debug loop would leave it: a run that went wrong, and the proposal to fix it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from small_project import SmallProject, until

from context_store.records import Amount, Checkpoint, Effect, EffectRequest, NewProposal, Proposal
from contracts.enums import EffectKind, EffectState, Role
from contracts.evidence import EvidenceRef
from control_plane.executor import Executor
from control_plane.projects import register_project
from control_plane.trainings import TrainingRequest, follow
from control_plane.wiring import Lathe
from control_plane.worktrees import CodeVersion

CASE = "case-1"
RUN = "run-1"
FINISHED = (EffectState.DONE, EffectState.FAILED, EffectState.REFUSED)


def train_bad_run(lathe: Lathe, small: SmallProject) -> None:
    """30 steps at the bad commit, and a case with a budget."""
    project = register_project(lathe.store, small.folder)
    wish = TrainingRequest(run_id=RUN, project=project, commit=small.bad, max_step=30, overrides={"step_s": 0.001})
    follow(lathe.backend, lathe.shipper, lathe.trainings.begin(wish))
    lathe.store.knowledge.open_investigation(CASE, RUN, (), "the loss rises", time.time())
    lathe.store.budgets.open(CASE, Amount(cpu_s=100.0, reruns=10))


def payload(lathe: Lathe, small: SmallProject, **changes: Any) -> dict[str, Any]:
    """From the checkpoint at step 10 without the bad commit."""
    checkpoint = checkpoint_at(lathe, 10)
    return {
        "project_id": lathe.store.runs.get(RUN).project_id,
        "run_id": RUN,
        "code": {"base": small.bad, "revert": [small.bad], "pick": []},
        "overrides": {},
        "start_checkpoint": checkpoint.path,
        "start_step": checkpoint.step,
        "max_step": 40,
        **changes,
    }


def diagnostic(lathe: Lathe, small: SmallProject, key: str = "d1", **changes: Any) -> Effect:
    """Request a re-run."""
    fields = payload(lathe, small, run_id=f"rr-{key}", source_run_id=RUN, **changes)
    return lathe.store.effects.request(
        EffectRequest(
            key=key, kind=EffectKind.DIAGNOSTIC_RUN, payload=fields, investigation_id=CASE, actor="loop:debug"
        )
    )


def propose_fix(lathe: Lathe, small: SmallProject, **changes: Any) -> Proposal:
    """The proposal to go on without the bad commit."""
    return propose(
        lathe,
        kind=EffectKind.RESUME_WITH_PATCH,
        title="go on without the steeper slope",
        payload=payload(lathe, small, branch="lathe/fix-1", **{"source_segment": 0, **changes}),
        diff=lathe.worktrees.materialise(small.folder, CodeVersion(base=small.bad, revert=(small.bad,))).diff,
        base_state=f"commit {small.bad}, checkpoint {checkpoint_at(lathe, 10).sha256}",
    )


def propose_start(lathe: Lathe, small: SmallProject) -> Proposal:
    """The proposal to train the good commit from the beginning."""
    fields = {"project_id": lathe.store.runs.get(RUN).project_id, "run_id": "run-2", "max_step": 12}
    return propose(
        lathe,
        kind=EffectKind.START_RUN,
        title="train the good commit",
        payload={**fields, "code": {"base": small.good}},
        diff="",
        base_state=f"commit {small.good}",
    )


def propose(lathe: Lathe, **content: Any) -> Proposal:
    """Store a proposal."""
    return lathe.store.proposals.put(
        NewProposal(
            investigation_id=CASE,
            risk="low",
            verification="the loss falls",
            evidence=(EvidenceRef(kind="run", id=RUN),),
            expires_at=time.time() + 3600,
            **content,
        )
    )


def checkpoint_at(lathe: Lathe, step: int) -> Checkpoint:
    """The run's checkpoint there."""
    checkpoint = lathe.store.runs.checkpoint_at_or_before(RUN, step)
    assert checkpoint is not None
    return checkpoint


def approve(lathe: Lathe, proposal: Proposal) -> None:
    """As a reviewer."""
    lathe.store.proposals.approve(proposal.id, "ada", Role.REVIEWER, "looks right", time.time(), proposal.bound_hash)


def apply(lathe: Lathe, proposal: Proposal, key: str = "apply-1") -> Effect:
    """Request the proposal's effect."""
    return lathe.store.effects.request(
        EffectRequest(
            key=key,
            kind=proposal.kind,
            payload=proposal.payload,
            investigation_id=CASE,
            actor="loop:debug",
            proposal_id=proposal.id,
        )
    )


def finish(lathe: Lathe, key: str, clock: Callable[[], float] = time.time) -> Effect:
    """Let an executor work until the effect is over."""
    executor = lathe.executor("worker-a", clock=clock)
    drive(executor, lambda: lathe.store.effects.get(key).state in FINISHED)
    return lathe.store.effects.get(key)


def drive(executor: Executor, done: Callable[[], bool]) -> None:
    """Step until `done`."""

    def step() -> bool:
        executor.step()
        return done()

    until(step)


def segments(folder: Path) -> list[str]:
    """Names of the segment folders of a run."""
    return sorted(path.name for path in folder.glob("segment-*"))
