"""GET /health: one sentence for a person who just looked. GET /system: what is not in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import version

from fastapi import APIRouter, Request

from context_store import Store
from context_store.records import Investigation, Policy, Principal, Proposal, Run
from contracts.enums import InvestigationState, ProposalState, RunRole, RunState
from control_plane.api.access import ClockDep, PrincipalDep, ResearcherDep, StoreDep
from control_plane.api.answer import Answer
from control_plane.api.bodies import Body
from control_plane.doctor import Check
from control_plane.leases import WORKER, Leases

router = APIRouter(tags=["health"])
_RECENT = 50
_VERSION = version("lathe")


class Health(Body):
    """`halted`: the policy that lets nothing begin, or null. `quiet_cases`: those that people snoozed, muted or called
    false alarms; they are not told of here, but their open proposals are: those wait for a reviewer.
    """

    ok: bool
    sentence: str
    halted: Policy | None
    needs_you: int
    quiet_cases: list[str]
    running: list[Run]
    version: str
    principal: Principal


class System(Body):
    """`worker`: whether some worker carries effects out and drives cases. `checks`: of the machine the API runs on."""

    worker: bool
    checks: list[Check]


@router.get("/health", response_model=Health)
def health(store: StoreDep, clock: ClockDep, principal: PrincipalDep) -> Answer:
    """`ok` is false while an anomaly is open, a person is needed, all is halted, or the last training failed and none
    runs; `needs_you`: open proposals.
    """
    halted, quiet = store.policies.halted(), store.triage.quiet_cases(clock())
    waiting = store.proposals.list(state=ProposalState.OPEN)
    trainings = store.runs.list(role=RunRole.TRAINING, limit=_RECENT)
    running = [run for run in trainings if run.state == RunState.RUNNING]
    open_cases = [
        case for case in store.knowledge.investigations(state=InvestigationState.OPEN) if case.id not in quiet
    ]
    return Answer(
        {
            "ok": not (waiting or open_cases or halted or _has_failed(trainings, running)),
            "sentence": _halted(halted) if halted else _sentence(store, waiting, open_cases, trainings, running),
            "halted": halted,
            "needs_you": len(waiting),
            "quiet_cases": sorted(quiet),
            "running": running,
            "version": _VERSION,
            "principal": principal,
        }
    )


@router.get("/system", response_model=System)
def system(request: Request, store: StoreDep, _: ResearcherDep) -> Answer:
    """What `lathe doctor` says, as far as it can be told without starting anything.

    `worker` says whether anybody carries effects out, which need not be the service: `lathe demo` does it itself.
    """
    checks: Callable[[], Iterable[Check]] = request.app.state.checks
    with Leases(store.url) as leases:
        told = [each for each in checks() if each.name != f"service {WORKER}"]
        return Answer({"worker": leases.is_held(WORKER), "checks": told})


def _halted(policy: Policy) -> str:
    return f"Halted by {policy.set_by}: {policy.reason}. Nothing is begun until: lathe policy resume"


def _sentence(
    store: Store,
    waiting: list[Proposal],
    open_cases: list[Investigation],
    trainings: list[Run],
    running: list[Run],
) -> str:
    if waiting:
        first = waiting[0]
        case = store.knowledge.investigation(first.investigation_id) if first.investigation_id else None
        number = "One proposal waits for you" if len(waiting) == 1 else f"{len(waiting)} proposals wait for you"
        return f"{number}: {case.title if case else first.title}"
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
