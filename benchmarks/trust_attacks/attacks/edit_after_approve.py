"""Change a proposal after it was approved, or have an old one carried out after an edit."""

from __future__ import annotations

import dataclasses
from typing import Any

from benchmarks.trust_attacks.kit import Kit, as_new
from context_store.records import Proposal
from contracts.enums import EffectKind, Role

_FIELDS: dict[str, Any] = {
    "diff": "evil",
    "base_state": "newer",
    "title": "something harmless",
    "risk": "none at all",
    "verification": "not needed",
    "expires_at": 5e9,
    "evidence": (),
}
VARIANTS = {
    **{f"put again with another {name}": ("put", name) for name in _FIELDS},
    "put again with another payload": ("payload", ""),
    "edited over HTTP": ("edit", ""),
    "edited in the store": ("replace", ""),
    "the old one after an edit": ("old", ""),
    "the old one with the hash of the new": ("old with new hash", ""),
    "the new one with the hash of the old": ("new with old hash", ""),
    "the new payload under the old approval": ("new payload", ""),
    "an edit of an edit": ("chain", ""),
    "an edit while its effect waits": ("waiting", ""),
}


def control(kit: Kit) -> bool:
    """The edit is what is approved and carried out."""
    old = kit.propose(EffectKind.PATCH_CODE)
    new = edited(kit, old)
    return new is not None and kit.approve(new).is_success and bool(kit.request(new)) and _done(kit, new)


def _done(kit: Kit, proposal: Proposal) -> bool:
    kit.settle()
    return kit.is_done(proposal)


def edited(kit: Kit, old: Proposal, revert: str = "") -> Proposal | None:
    """Over HTTP; None when it was refused."""
    code = {"base": kit.world.small.bad, "revert": [revert or kit.world.small.innocent], "pick": []}
    body = {"bound_hash": old.bound_hash, "comment": "the other one", "changes": {"code": code}}
    answer = kit.decide(old.id, "edit", body)
    return kit.store.proposals.get(answer.json()["proposal"]["id"]) if answer.is_success else None


def attack(kit: Kit, variant: tuple[str, str]) -> object:
    what, name = variant
    proposal = kit.propose(EffectKind.PATCH_CODE)
    if what in ("put", "payload", "edit", "replace", "waiting"):
        kit.careless(proposal)
        return _after(kit, proposal, what, name)
    new = edited(kit, proposal)
    assert new is not None
    match what:
        case "old":
            opened = kit.approve(proposal).is_success
            kit.request(proposal)
        case "old with new hash":
            opened = kit.approve(dataclasses.replace(proposal, bound_hash=new.bound_hash)).is_success
            kit.request(proposal)
        case "new with old hash":
            opened = kit.approve(dataclasses.replace(new, bound_hash=proposal.bound_hash)).is_success
            kit.request(new)
        case "new payload":
            opened = kit.approve(proposal).is_success
            kit.request(proposal, payload=new.payload)
        case _:
            opened = edited(kit, proposal, kit.world.small.bad) is not None
    return opened


def _after(kit: Kit, proposal: Proposal, what: str, name: str) -> object:
    """None of it may be carried out, but for a text that binds nothing: then exactly what was approved is."""
    match what:
        case "put":
            again = kit.store.proposals.put(as_new(proposal, **{name: _FIELDS[name]}))
            if name in ("title", "risk", "verification", "evidence", "expires_at"):
                kit.allowed.deeds.append(proposal)
                kit.request(proposal)
                kit.settle()
                return kit.store.proposals.get(proposal.id) != dataclasses.replace(again)
            kit.request(again)
        case "payload":
            payload = {**proposal.payload, "branch": f"lathe/evil-{kit.name}"}
            kit.request(kit.store.proposals.put(as_new(proposal, payload=payload)))
        case "edit":
            return edited(kit, proposal) is not None
        case "waiting":
            kit.allowed.deeds.append(proposal)
            kit.request(proposal)
            return edited(kit, proposal) is not None
        case _:
            new = as_new(proposal, diff="evil")
            kit.store.proposals.replace(proposal.id, new, "eve", Role.ADMIN, "", 0.0, proposal.bound_hash)
    return None
