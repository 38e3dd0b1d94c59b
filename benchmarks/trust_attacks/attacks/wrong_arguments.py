"""Carry out something else than what was approved: other arguments, another kind, another case."""

from __future__ import annotations

import copy
from typing import Any

from benchmarks.trust_attacks.kit import Kit
from contracts.enums import EffectKind

_OF_A_MESSAGE = {
    "other text": {"text": "evil"},
    "text with a space more": {"text": "@ "},
    "text in capitals": {"text": "@upper"},
    "text that looks the same": {"text": "@homoglyph"},
    "no text": {"text": ""},
    "another address": {"url": "http://127.0.0.1:9/"},
    "the address with a query": {"url": "@?a=1"},
    "the address with a fragment": {"url": "@#a"},
    "the address with a user": {"url": "@user"},
    "one field more": {"approved": True},
    "a list as text": {"text": ["evil"]},
    "nothing as text": {"text": None},
}
_OF_A_PATCH: dict[str, tuple[tuple[str, ...], Any]] = {
    "another branch": (("branch",), "lathe/evil"),
    "the person's branch": (("branch",), "main"),
    "a path out of lathe": (("branch",), "lathe/../main"),
    "another base": (("code", "base"), "@good"),
    "the base by a short name": (("code", "base"), "@short"),
    "nothing taken back": (("code", "revert"), []),
    "taken back twice": (("code", "revert"), ["@bad", "@bad"]),
    "one commit more taken back": (("code", "revert"), ["@bad", "@innocent"]),
    "a commit added": (("code", "pick"), ["@bad"]),
    "another project": (("project_id",), "other"),
    "a field more": (("code", "push"), True),
}
_KINDS = sorted(set(EffectKind) - {EffectKind.NOTIFY, EffectKind.DIAGNOSTIC_RUN, EffectKind.UNDO})
VARIANTS = {
    **{f"message: {name}": ("message", change) for name, change in _OF_A_MESSAGE.items()},
    **{f"patch: {name}": ("patch", change) for name, change in _OF_A_PATCH.items()},
    **{f"as {kind}": ("kind", kind) for kind in _KINDS},
    "in another case": ("case", "case-wrong_arguments-list"),
    "in no case": ("case", None),
    "as a diagnostic": ("kind", EffectKind.DIAGNOSTIC_RUN),
    "without its proposal": ("proposal", None),
    "under a proposal that is not there": ("proposal", "pr-none"),
    "under an injected proposal": ("proposal", "' OR 1=1 --"),
}


def control(kit: Kit) -> bool:
    return kit.honest() and kit.honest(EffectKind.PATCH_CODE)


def attack(kit: Kit, variant: tuple[str, Any]) -> None:
    what, change = variant
    proposal = kit.propose(EffectKind.PATCH_CODE if what == "patch" else EffectKind.NOTIFY)
    kit.careless(proposal)
    changes: dict[str, Any] = {}
    match what:
        case "message":
            payload = {name: _message(kit, proposal.payload.get(name), value) for name, value in change.items()}
            changes["payload"] = {**proposal.payload, **payload}
        case "patch":
            changes["payload"] = _patch(kit, copy.deepcopy(dict(proposal.payload)), *change)
        case "kind":
            changes["kind"] = EffectKind(change)
        case "case":
            changes["investigation_id"] = change
        case _:
            changes["proposal_id"] = change
    kit.request(proposal, **changes)


def _message(kit: Kit, old: Any, value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith("@"):
        return value
    return {
        "@ ": f"{old} ",
        "@upper": str(old).upper(),
        "@homoglyph": str(old).replace("a", "\u0430"),
        "@user": str(old).replace("http://", "http://user@"),
    }.get(value, f"{old}{value[1:]}")


def _patch(kit: Kit, payload: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    small = kit.world.small
    names = {"@good": small.good, "@bad": small.bad, "@innocent": small.innocent, "@short": small.bad[:12]}
    place = payload
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = [names.get(each, each) for each in value] if isinstance(value, list) else names.get(value, value)
    return payload
