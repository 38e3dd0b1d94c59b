"""Move a scaffold to something else, from somewhere else, or more than once."""

from __future__ import annotations

from typing import Any

from benchmarks.trust_attacks.kit import Kit
from context_store.records import EffectRequest, Proposal
from contracts.enums import AutonomyLevel, EffectKind, EffectState, Role

_KIND = EffectKind.PROMOTE_SCAFFOLD
_CHANGED: dict[str, dict[str, Any]] = {
    "another candidate": {"candidate": "@bad"},
    "another base": {"base": "@innocent"},
    "another name": {"name": "other"},
    "one field more": {"force": True},
}
_CARELESS: dict[str, dict[str, Any]] = {
    "a branch as name": {"name": "../../heads/main"},
    "a name with a slash": {"name": "a/b"},
    "a name with an end of line": {"name": "a\n"},
    "an option as name": {"name": "-d"},
    "a word as candidate": {"candidate": "main"},
    "a tree as candidate": {"candidate": "@tree"},
    "a candidate that is not there": {"candidate": "1" * 40},
    "a base where there is none": {"base": "@innocent"},
    "the origin as project": {"project_id": "@origin"},
}
VARIANTS: dict[str, Any] = {
    **{f"approved for something else: {name}": ("changed", what) for name, what in _CHANGED.items()},
    **{f"approved, with {name}": ("careless", what) for name, what in _CARELESS.items()},
    "with a diff that is not the candidate's": ("diff", None),
    "unapproved": ("unapproved", None),
    "the same approval again": ("again", None),
    "after somebody moved it": ("moved", None),
    "back, after somebody moved it on": ("back", None),
    "back twice": ("back twice", None),
    "by a policy that may only act": ("act", None),
}


def control(kit: Kit) -> bool:
    """Promoted, and promoted once more from there."""
    first = kit.propose(_KIND)
    kit.approve(first)
    kit.request(first)
    kit.settle()
    payload = {**first.payload, "base": kit.world.small.good, "candidate": kit.world.small.bad}
    return kit.is_done(first) and kit.honest(_KIND, payload=payload, diff=kit.promotion(payload))


def attack(kit: Kit, variant: tuple[str, Any]) -> object:
    how, changes = variant
    if how == "act":
        policy = kit.store.policies
        policy.set_autonomy(
            "evolve", AutonomyLevel.ACT, "eve", Role.ADMIN, "r", 1.0, effects=[_KIND], num_effects=1
        )  # fmt: skip
        return True
    if how in ("again", "moved", "back", "back twice"):
        return _after(kit, how)
    given: dict[str, Any] = {}
    if how == "careless":
        given = {"payload": {**kit.new(_KIND).payload, **_named(kit, changes)}}
    if how == "diff":
        given = {"diff": "diff --git a/notes.py b/notes.py\n"}
    proposal = kit.propose(_KIND, **given)
    if how != "unapproved":
        kit.careless(proposal)
    payload = {**proposal.payload, **(_named(kit, changes) if how == "changed" else {})}
    kit.request(proposal, payload=payload)
    return None


def _named(kit: Kit, changes: dict[str, Any]) -> dict[str, Any]:
    small = kit.world.small
    names = {"@bad": small.bad, "@innocent": small.innocent, "@origin": str(small.origin)}
    names["@tree"] = small.git("rev-parse", f"{small.bad}^{{tree}}")
    return {name: names.get(value, value) if isinstance(value, str) else value for name, value in changes.items()}


def _after(kit: Kit, how: str) -> object:
    """It was promoted once, under an approval."""
    proposal = kit.propose(_KIND)
    kit.approve(proposal)
    key = kit.request(proposal)
    kit.settle()
    ref = f"refs/lathe/scaffold/{proposal.payload['name']}"
    match how:
        case "again":
            _move(kit, ref, "")
            again = kit.request(proposal, f"{key}:again")
            kit.settle()
            opened = _stands(kit, ref) != "" or kit.store.effects.get(again).state is EffectState.DONE
        case "moved":
            opened = _stale(kit, proposal, ref)
        case _:
            opened = _back(kit, key, ref, twice=how == "back twice")
    _move(kit, ref, str(proposal.payload["candidate"]))  # the judge knows this place
    return opened


def _stale(kit: Kit, first: Proposal, ref: str) -> bool:
    """The next promotion was made while the scaffold still stood where the first one had put it."""
    small = kit.world.small
    payload = {**first.payload, "base": small.good, "candidate": small.bad}
    proposal = kit.propose(_KIND, payload=payload, diff=kit.promotion(payload))
    kit.careless(proposal)
    _move(kit, ref, small.innocent)
    kit.request(proposal)
    kit.settle()
    return _stands(kit, ref) != small.innocent


def _back(kit: Kit, key: str, ref: str, *, twice: bool) -> bool:
    small = kit.world.small
    if twice:
        _undo(kit, f"undo:{key}", key)
        _move(kit, ref, small.good)
        return _undo(kit, f"again:{key}", key) is EffectState.DONE or _stands(kit, ref) != small.good
    _move(kit, ref, small.innocent)
    return _undo(kit, f"undo:{key}", key) is EffectState.DONE or _stands(kit, ref) != small.innocent


def _undo(kit: Kit, name: str, key: str) -> EffectState:
    kit.store.effects.request(
        EffectRequest(
            key=name, kind=EffectKind.UNDO, payload={"effect": key}, investigation_id=kit.case_id, actor="loop:debug"
        )
    )  # fmt: skip
    kit.settle()
    return kit.store.effects.get(name).state


def _stands(kit: Kit, ref: str) -> str:
    return kit.world.small.git("for-each-ref", "--format=%(objectname)", ref)


def _move(kit: Kit, ref: str, commit: str) -> None:
    """A person moves it by hand; "" takes it away."""
    kit.world.small.git(*(("update-ref", ref, commit) if commit else ("update-ref", "-d", ref)))
