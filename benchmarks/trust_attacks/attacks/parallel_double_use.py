"""One approval, used by many at the same moment."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from benchmarks.trust_attacks.kit import Kit, as_new
from context_store.records import Proposal
from contracts.enums import EffectKind

T = TypeVar("T")
VARIANTS = {
    **{f"{n} keys, {n} claims": ("claims", n) for n in (2, 4, 8, 12)},
    **{f"one key, {n} executors": ("executors", n) for n in (2, 3, 4)},
    **{f"{n} keys, {n} executors": ("both", n) for n in (2, 4)},
    **{f"{n} approvals at once": ("approvals", n) for n in (2, 4, 8)},
    "approved and edited at once": ("edit", 4),
    "approved and rejected at once": ("reject", 4),
    "approved and sent back at once": ("ask-changes", 4),
    "two patches of one branch at once": ("branch", 2),
    "two cases at once": ("cases", 4),
}


def control(kit: Kit) -> bool:
    return kit.honest()


def attack(kit: Kit, variant: tuple[str, int]) -> object:
    what, number = variant
    if what in ("edit", "reject", "ask-changes"):
        return _decide_at_once(kit, what, number)
    if what == "branch":
        return _same_branch(kit)
    proposal = kit.propose()
    if what == "approvals":
        return _approve_at_once(kit, proposal, number)
    kit.approve(proposal)
    keys = 1 if what == "executors" else number
    for n in range(keys):
        kit.request(proposal, f"{proposal.id}:{n}")
    if what == "cases":
        kit.store.proposals.put(as_new(proposal, investigation_id=None))
    if what in ("claims", "cases"):
        kinds = [EffectKind.NOTIFY]
        claims = at_once(number, lambda n: kit.store.effects.claim(f"w{n}", kinds, 60.0, time.time()))
        for claim in filter(None, claims):
            kit.store.effects.refuse(claim.key, "it was only claimed")
        return sum(claim is not None for claim in claims) > 1
    at_once(number, lambda n: kit.settle())
    return kit.world.inbox.count(str(proposal.payload["text"])) != 1


def at_once(number: int, action: Callable[[int], T]) -> list[T]:
    with ThreadPoolExecutor(number) as pool:
        return list(pool.map(action, range(number)))


def _approve_at_once(kit: Kit, proposal: Proposal, number: int) -> object:
    answers = at_once(number, lambda _: kit.approve(proposal).is_success)
    for n in range(number):
        kit.request(proposal, f"{proposal.id}:{n}")
    kit.settle()
    return answers.count(True) != 1 or kit.world.inbox.count(str(proposal.payload["text"])) != 1


def _decide_at_once(kit: Kit, what: str, number: int) -> object:
    """Whichever decision wins, the other one must not hold as well."""
    proposal = kit.propose(EffectKind.PATCH_CODE if what == "edit" else EffectKind.NOTIFY)
    code = {"base": kit.world.small.bad, "revert": [kit.world.small.innocent], "pick": []}
    other: dict[str, object] = {"bound_hash": proposal.bound_hash, "comment": "no"}
    other |= {"changes": {"code": code}} if what == "edit" else {}

    def decide(n: int) -> bool:
        if n % 2:
            return kit.decide(proposal.id, what, other).is_success
        return kit.approve(proposal).is_success

    won = at_once(number, decide)
    kit.request(proposal)
    kit.settle()
    return won.count(True) != 1


def _same_branch(kit: Kit) -> object:
    """A branch that was approved for one tree does not come to hold another."""
    first = kit.propose(EffectKind.PATCH_CODE)
    code = {"base": kit.world.small.bad, "revert": [kit.world.small.innocent], "pick": []}
    payload = {**first.payload, "code": code}
    second = kit.propose(EffectKind.PATCH_CODE, payload=payload, diff=kit.diff(code))
    kit.approve(first)
    kit.careless(second)
    kit.request(first)
    kit.settle()
    kit.request(second)
    kit.settle()
    return not kit.is_done(first)
