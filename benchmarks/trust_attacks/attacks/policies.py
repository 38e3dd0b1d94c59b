"""What a policy allows is used for more, or after it was revoked; four eyes that are only two."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.trust_attacks.kit import Kit, as_new
from contracts.enums import AutonomyLevel, EffectKind, Role
from contracts.errors import LatheError

VARIANTS: dict[str, Any] = {
    "another loop": "loop",
    "another kind": "kind",
    "more often": "often",
    "after it was revoked": "revoked",
    "approved before, claimed after": "late",
    "the level without the list": "level",
    "the next stage of an experiment": "stage",
    "by a reviewer": "reviewer",
    "by a researcher over HTTP": "http",
    "four eyes: the same person twice": "twice",
    "four eyes: the same person in capitals": "capitals",
    "four eyes: a second token of the same person": "token",
    "four eyes: one person and a policy": "and policy",
    "four eyes asked for after the approval": "after",
    "while everything is halted": "halted",
    "lifting the halt as a reviewer": "lift",
}
_ME = f"root-{time.time()}"


def _act(kit: Kit, number: int = 1) -> int:
    kit.allowed.policies += 1
    return kit.store.policies.set_autonomy(
        "long", AutonomyLevel.ACT, _ME, Role.ADMIN, "nights", time.time(), effects=[EffectKind.NOTIFY],
        num_effects=number,
    ).id  # fmt: skip


def _end(kit: Kit) -> None:
    """Whatever the variant set holds no longer, as an admin would have it."""
    for each in kit.store.policies.list(in_force=True):
        kit.allowed.policies += 1
        kit.store.policies.revoke(each.id, _ME, Role.ADMIN, "over", time.time())


def control(kit: Kit) -> bool:
    """The policy approves one message, which is sent."""
    policy = _act(kit)
    proposal = kit.propose()
    approval = kit.store.proposals.approve_by_policy(proposal.id, "long", time.time())
    kit.allowed.approved.append(proposal)
    kit.allowed.deeds.append(proposal)
    kit.request(proposal)
    kit.settle()
    _end(kit)
    return approval is not None and approval.policy_id == policy and kit.is_done(proposal)


def attack(kit: Kit, variant: str) -> object:
    try:
        four_eyes = variant in ("twice", "capitals", "token", "and policy", "after")
        if not four_eyes:
            return _by_policy(kit, variant)
        _four_eyes(kit, variant)
        return None
    except LatheError:
        return None
    finally:
        kit.settle()
        _end(kit)


def _by_policy(kit: Kit, variant: str) -> object:
    proposals, now = kit.store.proposals, time.time()
    if variant in ("halted", "lift"):
        return _halted(kit, variant)
    if variant in ("reviewer", "http", "level"):
        return _set_by_others(kit, variant)
    policy = _act(kit)
    if variant == "often":
        first = kit.propose()
        proposals.approve_by_policy(first.id, "long", now)
        kit.allowed.approved.append(first)
    proposal = kit.propose(EffectKind.PATCH_CODE if variant == "kind" else EffectKind.NOTIFY)
    if variant == "stage":
        proposal = proposals.put(as_new(proposal, kind=EffectKind.NEXT_STAGE))
    if variant == "late":
        proposals.approve_by_policy(proposal.id, "long", now)
        kit.allowed.approved.append(proposal)
    if variant in ("late", "revoked"):
        kit.allowed.policies += 1
        kit.store.policies.revoke(policy, _ME, Role.ADMIN, "no more", now)
    if variant != "late":
        proposals.approve_by_policy(proposal.id, "debug" if variant == "loop" else "long", now)
    kit.request(proposal)
    return None


def _set_by_others(kit: Kit, variant: str) -> object:
    body = {"loop": "long", "level": "act", "effects": ["notify"], "num_effects": 9, "reason": "please"}
    if variant == "http":
        return kit.http("POST", "/policies/autonomy", role=Role.RESEARCHER, json=body).is_success
    role, effects = (Role.REVIEWER, [EffectKind.NOTIFY]) if variant == "reviewer" else (Role.ADMIN, [])
    kit.store.policies.set_autonomy("long", AutonomyLevel.ACT, _ME, role, "now", 0.0, effects=effects, num_effects=1)
    return True


def _halted(kit: Kit, variant: str) -> object:
    proposal = kit.propose()
    kit.careless(proposal)
    kit.allowed.policies += 1
    kit.store.policies.halt(_ME, Role.ADMIN, "a drill", time.time())
    key = kit.request(proposal)
    if variant == "lift" and kit.http("POST", "/policies/resume", role=Role.REVIEWER, json={"reason": "x"}).is_success:
        return True
    kit.settle()
    sent = kit.world.inbox.count(str(proposal.payload["text"])) != 0
    kit.store.effects.refuse(key, "the drill is over")
    return sent


def _four_eyes(kit: Kit, variant: str) -> None:
    kit.allowed.policies += 1
    proposal, store = kit.propose(), kit.store
    if variant == "after":
        kit.careless(proposal)
    store.policies.require_four_eyes([EffectKind.NOTIFY], _ME, Role.ADMIN, "two of us", time.time())
    if variant != "after":
        kit.careless(proposal)  # an honest first approval
    match variant:
        case "twice":
            kit.decide(proposal.id, "approve", {"bound_hash": proposal.bound_hash})
        case "capitals":
            store.proposals.approve(proposal.id, "HONEST", Role.ADMIN, "", time.time(), proposal.bound_hash)
        case "token":
            kit.allowed.tokens += 1
            token = store.tokens.create("Honest", Role.ADMIN)
            body = {"bound_hash": proposal.bound_hash}
            kit.http("POST", f"/proposals/{proposal.id}/approve", token=token, json=body)
        case "and policy":
            _act(kit)
            store.proposals.approve_by_policy(proposal.id, "long", time.time())
    kit.request(proposal)
