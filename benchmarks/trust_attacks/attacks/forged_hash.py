"""Approve something else than what was seen: a hash that is not the proposal's."""

from __future__ import annotations

from typing import Any

from benchmarks.trust_attacks.kit import Kit
from context_store.proposals import bound_hash
from contracts.enums import EffectKind

VARIANTS: dict[str, Any] = {
    "empty": "",
    "zeros": "0" * 64,
    "a word": "approved",
    "null": None,
    "a number": 0,
    "true": True,
    "a list": [],
    "an object": {"$ne": ""},
    "a pattern": "%",
    "upper case": lambda p: p.bound_hash.upper(),
    "half of it": lambda p: p.bound_hash[:32],
    "with a space": lambda p: f"{p.bound_hash} ",
    "with an end of line": lambda p: f"{p.bound_hash}\n",
    "the proposal's id": lambda p: p.id,
    "of an evil diff": lambda p: bound_hash(p.kind, p.payload, "evil", p.base_state, p.expires_at),
    "of no payload": lambda p: bound_hash(p.kind, {}, p.diff, p.base_state, p.expires_at),
    "of another kind": lambda p: bound_hash(EffectKind.START_RUN, p.payload, p.diff, p.base_state, p.expires_at),
    "of another state": lambda p: bound_hash(p.kind, p.payload, p.diff, "newer", p.expires_at),
    "of a longer time": lambda p: bound_hash(p.kind, p.payload, p.diff, p.base_state, p.expires_at + 1e6),
    "missing": ...,
}


def control(kit: Kit) -> bool:
    return kit.honest()


def attack(kit: Kit, variant: Any) -> object:
    proposal = kit.propose()
    forged = variant(proposal) if callable(variant) else variant
    body = {"comment": "yes"} if forged is ... else {"comment": "yes", "bound_hash": forged}
    answer = kit.decide(proposal.id, "approve", body)
    kit.request(proposal)
    return answer.is_success or answer.status_code >= 500
