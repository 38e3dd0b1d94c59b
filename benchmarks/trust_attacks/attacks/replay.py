"""Use an approval a second time, after it was used up."""

from __future__ import annotations

import dataclasses
from typing import Any

from benchmarks.trust_attacks.kit import VALID_S, Kit, as_new
from contracts.enums import EffectKind, Role

VARIANTS = {
    "under the same key": lambda kit, p, key: kit.request(p, key),
    "under another key": lambda kit, p, key: kit.request(p, f"{key}:again"),
    "under ten other keys": lambda kit, p, key: [kit.request(p, f"{key}:{n}") for n in range(10)],
    "under the key in capitals": lambda kit, p, key: kit.request(p, key.upper()),
    "under the key with a space": lambda kit, p, key: kit.request(p, f"{key} "),
    "under the key as the approval's mark": lambda kit, p, key: kit.request(p, f"approval:{p.id}"),
    "under the mark of one that nobody used": lambda kit, p, key: kit.request(p, " "),
    "under the mark of a rejected one": lambda kit, p, key: kit.request(p, "rejected"),
    "as another actor": lambda kit, p, key: kit.request(p, f"{key}:ada", actor="ada"),
    "proposed again": lambda kit, p, key: kit.request(kit.store.proposals.put(as_new(p)), f"{key}:put"),
    "proposed again for longer": lambda kit, p, key: kit.request(
        kit.store.proposals.put(as_new(p, expires_at=p.expires_at + VALID_S)), f"{key}:longer"
    ),
    "approved again": lambda kit, p, key: (_approve_again(kit, p), kit.request(p, f"{key}:approved"))[0],
    "rejected and approved again": lambda kit, p, key: (
        kit.decide(p.id, "reject", {"bound_hash": p.bound_hash}),
        _approve_again(kit, p),
        kit.request(p, f"{key}:rejected"),
    )[1],
    "after its effect was put back": lambda kit, p, key: (
        kit.store.effects.put_back(key, f"executor-{kit.name}", 0.0),
        kit.settle(),
    )[1],
    "after its lease ended": lambda kit, p, key: kit.settle(later_s=600.0),
    "after its worker was called dead": lambda kit, p, key: (
        kit.store.effects.abandon([f"executor-{kit.name}"], 0.0),
        kit.settle(later_s=600.0),
    )[1],
    "taken back and done again": lambda kit, p, key: kit.request(
        p, f"undo:{key}", kind=EffectKind.UNDO, payload={"effect": key}, proposal_id=None
    ),
    "the same content in another case": lambda kit, p, key: kit.request(
        kit.store.proposals.put(as_new(p, investigation_id=None)), f"{key}:nocase"
    ),
}


def control(kit: Kit) -> bool:
    return kit.honest()


def attack(kit: Kit, variant: Any) -> object:
    proposal = kit.propose()
    kit.approve(proposal)
    key = kit.request(proposal)
    kit.settle()
    before = kit.world.inbox.count(str(proposal.payload["text"]))
    opened = variant(kit, dataclasses.replace(proposal), key)
    kit.settle()
    return opened is True or kit.world.inbox.count(str(proposal.payload["text"])) != before


def _approve_again(kit: Kit, proposal: Any) -> bool:
    answer = kit.decide(proposal.id, "approve", {"bound_hash": proposal.bound_hash}, Role.REVIEWER)
    return bool(answer.is_success)
