"""GET /health: one sentence for a person who just looked. GET /system: what is not in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import version

from fastapi import APIRouter, Request

from context_store import Store
from context_store.records import Policy, Principal, Run
from contracts.enums import InvestigationState, ProposalState, RunRole, RunState
from control_plane.api.access import PrincipalDep, ResearcherDep, StoreDep
from control_plane.api.answer import Answer
from control_plane.api.bodies import Body
from control_plane.doctor import Check
from control_plane.leases import WORKER, Leases

router = APIRouter(tags=["health"])
_RECENT = 50
_VERSION = version("lathe")


class Health(Body):
    """`halted`: the policy that lets nothing begin, or null."""

    ok: bool
    sentence: str
    halted: Policy | None
    needs_you: int
    running: list[Run]
    version: str
    principal: Principal


class System(Body):
    """`worker`: whether some worker carries effects out and drives cases. `checks`: of the machine the API runs on."""

    worker: bool
    checks: list[Check]


@router.get("/health", response_model=Health)
def health(store: StoreDep, principal: PrincipalDep) -> Answer:
    """`ok` is false while an anomaly is open, a person is needed, all is halted, or the last training failed and none
    runs; `needs_you`: open proposals.
    """
    halted = store.policies.halted()
    needs_you = len(store.proposals.list(state=ProposalState.OPEN))
    trainings = store.runs.list(role=RunRole.TRAINING, limit=_RECENT)
    running = [run for run in trainings if run.state == RunState.RUNNING]
    open_cases = store.knowledge.investigations(state=InvestigationState.OPEN)
    return Answer(
        {
            "ok": not (needs_you or open_cases or halted or _has_failed(trainings, running)),
            "sentence": _halted(halted) if halted else _sentence(store, needs_you, trainings, running),
            "halted": halted,
            "needs_you": needs_you,
            "running": running,
            "version": _VERSION,
            "principal": principal,
        }
    )


@router.get("/system", response_model=System)
def system(request: Request, store: StoreDep, _: ResearcherDep) -> Answer:
    """What `lathe doctor` says, as far as it can be told without starting anything."""
    checks: Callable[[], Iterable[Check]] = request.app.state.checks
    with Leases(store.url) as leases:
        return Answer({"worker": leases.is_held(WORKER), "checks": list(checks())})


def _halted(policy: Policy) -> str:
    return f"Halted by {policy.set_by}: {policy.reason}. Nothing is begun until: lathe policy resume"


def _sentence(store: Store, needs_you: int, trainings: list[Run], running: list[Run]) -> str:
    if needs_you:
        proposal = store.proposals.list(state=ProposalState.OPEN)[0]
        case = store.knowledge.investigation(proposal.investigation_id) if proposal.investigation_id else None
        waiting = "One proposal waits for you" if needs_you == 1 else f"{needs_you} proposals wait for you"
        return f"{waiting}: {case.title if case else proposal.title}"
    open_cases = store.knowledge.investigations(state=InvestigationState.OPEN)
    if open_cases:
        return f"Something is wrong and being looked into: {open_cases[0].title}"
    if running:
        names = ", ".join(f"{run.name} (step {run.last_step})" for run in running[:3])
        return f"Training goes on and nothing is wrong: {names}"
    if not trainings:
        return "No training yet. Begin one with: lathe train PROJECT"
    if _has_failed(trainings, running):
        return f"The last training failed: {trainings[0].message}"
    return "Nothing runs, and nothing waits for you."


def _has_failed(trainings: list[Run], running: list[Run]) -> bool:
    return bool(trainings) and not running and trainings[0].state == RunState.FAILED
