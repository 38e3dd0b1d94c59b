"""Take back, without asking, what may not be taken back that way."""

from __future__ import annotations

from typing import Any

from benchmarks.trust_attacks.kit import Kit
from context_store.records import EffectRequest
from contracts.enums import EffectKind, EffectState, InvestigationState

VARIANTS: dict[str, Any] = {
    "twice": ({"effect": "@"}, "twice"),
    "in another case": ({"effect": "@"}, "other case"),
    "in no case": ({"effect": "@"}, "no case"),
    "after the case was closed": ({"effect": "@"}, "closed"),
    "with a field more": ({"effect": "@", "again": 1}, ""),
    "of a list": ({"effect": ["@"]}, ""),
    "of nothing": ({}, ""),
    "of what is not there": ({"effect": "none"}, ""),
    "of another name": ({"effects": "@"}, ""),
    "of what was never approved": ({"effect": "@unapproved"}, ""),
    "of a message": ({"effect": "@message"}, ""),
    "of an undo": ({"effect": "@undo"}, "twice"),
    "with a branch of the person": ({"effect": "@", "branch": "main"}, ""),
}


def _done(kit: Kit, kind: EffectKind = EffectKind.PATCH_CODE) -> tuple[str, str]:
    proposal = kit.propose(kind)
    kit.approve(proposal)
    key = kit.request(proposal)
    kit.settle()
    return key, str(proposal.payload.get("branch", ""))


def _undo(kit: Kit, key: str, payload: dict[str, Any], case_id: str | None) -> EffectState:
    kit.store.effects.request(
        EffectRequest(key=key, kind=EffectKind.UNDO, payload=payload, investigation_id=case_id, actor="loop:debug")
    )
    kit.settle()
    return kit.store.effects.get(key).state


def control(kit: Kit) -> bool:
    """The branch is gone again."""
    key, branch = _done(kit)
    done = _undo(kit, f"undo:{key}", {"effect": key}, kit.case_id) is EffectState.DONE
    return done and not kit.world.small.git("for-each-ref", f"refs/heads/{branch}")


def attack(kit: Kit, variant: tuple[dict[str, Any], str]) -> object:
    payload, how = variant
    key, _ = _done(kit, EffectKind.NOTIFY if payload.get("effect") == "@message" else EffectKind.PATCH_CODE)
    if how == "twice":
        _undo(kit, f"undo:{key}", {"effect": key}, kit.case_id)
        other = f"undo:{key}" if payload["effect"] == "@undo" else key
        return _undo(kit, f"again:{key}", {"effect": other}, kit.case_id) is EffectState.DONE
    unapproved = kit.request(kit.propose(EffectKind.PATCH_CODE))
    names = {"@": key, "@message": key, "@unapproved": unapproved}
    given = {name: _named(value, names) for name, value in payload.items()}
    case_id = {"other case": "case-undo-list", "no case": None}.get(how, kit.case_id)
    if how == "closed":
        kit.store.knowledge.set_investigation(kit.case_id, state=InvestigationState.CLOSED)
    return _undo(kit, f"evil:{key}", given, case_id) is EffectState.DONE


def _named(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, list):
        return [names.get(each, each) for each in value]
    return names.get(value, value)
