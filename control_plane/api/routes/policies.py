"""Policies: how far each loop may go by itself, what needs two reviewers, and the kill switch. Admins change them."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import Field, StringConstraints

from context_store.policies import BY_POLICY, MAJOR
from context_store.records import Policy
from contracts.enums import AutonomyLevel, EffectKind
from control_plane.api.access import AdminDep, ClockDep, StoreDep
from control_plane.api.answer import Answer
from control_plane.api.bodies import MAX_ID, Body, Page, PagingDep, Reason, page

PolicyId = Annotated[int, Path(ge=1, le=MAX_ID)]
router = APIRouter(prefix="/policies", tags=["policies"])


class Reasoned(Body):
    """Why; kept with the policy and in the ledger."""

    reason: Reason


class Autonomy(Reasoned):
    """From level `act` on: which kinds of effects, how many of them, and their CPU seconds together."""

    loop: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    level: AutonomyLevel
    effects: list[EffectKind] = Field(default_factory=list)
    cpu_s: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    num_effects: int = Field(default=0, ge=0, le=1_000_000)


class FourEyes(Reasoned):
    """Kinds of effects that need two distinct reviewers."""

    effects: list[EffectKind] = Field(min_length=1)


class PolicyPage(Page):
    """`default_level`: what holds for a loop where no policy says otherwise. `major`: kinds that need an approval;
    `by_policy`: those of them that a policy may approve."""

    policies: list[Policy]
    halted: Policy | None
    default_level: AutonomyLevel
    major: list[EffectKind]
    by_policy: list[EffectKind]


class OnePolicy(Body):
    policy: Policy


class Halted(Body):
    halted: Policy | None


@router.get("", response_model=PolicyPage)
def policies(store: StoreDep, wish: PagingDep) -> Answer:
    """Every policy ever set, newest first; what holds where none says otherwise; and the kinds that need approval."""
    found, following = page(store.policies.list(), wish, lambda each: each.id)
    return Answer(
        {
            "policies": found,
            "next": following,
            "halted": store.policies.halted(),
            "default_level": AutonomyLevel.PROPOSE,
            "major": sorted(MAJOR),
            "by_policy": sorted(BY_POLICY),
        }
    )


@router.post("/autonomy", status_code=HTTPStatus.CREATED, response_model=OnePolicy)
def set_autonomy(store: StoreDep, clock: ClockDep, principal: AdminDep, wish: Autonomy) -> Answer:
    """Let one loop go this far from now on."""
    policy = store.policies.set_autonomy(
        wish.loop,
        wish.level,
        principal.name,
        principal.role,
        wish.reason,
        clock(),
        effects=wish.effects,
        cpu_s=wish.cpu_s,
        num_effects=wish.num_effects,
    )
    return Answer({"policy": policy}, status_code=HTTPStatus.CREATED)


@router.post("/four-eyes", status_code=HTTPStatus.CREATED, response_model=OnePolicy)
def four_eyes(store: StoreDep, clock: ClockDep, principal: AdminDep, wish: FourEyes) -> Answer:
    """Ask for two reviewers."""
    policy = store.policies.require_four_eyes(wish.effects, principal.name, principal.role, wish.reason, clock())
    return Answer({"policy": policy}, status_code=HTTPStatus.CREATED)


@router.post("/halt", status_code=HTTPStatus.CREATED, response_model=OnePolicy)
def halt(store: StoreDep, clock: ClockDep, principal: AdminDep, wish: Reasoned) -> Answer:
    """The kill switch: nothing is begun, running diagnostics are stopped, loops pause."""
    policy = store.policies.halt(principal.name, principal.role, wish.reason, clock())
    return Answer({"policy": policy}, status_code=HTTPStatus.CREATED)


@router.post("/resume", response_model=Halted)
def resume(store: StoreDep, clock: ClockDep, principal: AdminDep, wish: Reasoned) -> Answer:
    """Everything goes on where it stood."""
    store.policies.resume(principal.name, principal.role, wish.reason, clock())
    return Answer({"halted": store.policies.halted()})


@router.post("/{policy_id}/revoke", response_model=OnePolicy)
def revoke(store: StoreDep, clock: ClockDep, principal: AdminDep, policy_id: PolicyId, wish: Reasoned) -> Answer:
    """It holds no longer; what it approved and nobody carried out yet is refused."""
    return Answer({"policy": store.policies.revoke(policy_id, principal.name, principal.role, wish.reason, clock())})
