"""Use an approval, or give one, after the proposal's time."""

from __future__ import annotations

import time

from benchmarks.trust_attacks.kit import Kit, as_new
from context_store.records import Proposal
from contracts.enums import EffectState

VARIANTS = {
    **{f"claimed {late:g} s late": ("claim", late) for late in (0.1, 1.0, 3600.0, 1e6)},
    "approved over HTTP when it is over": ("approve", 0.0),
    "edited when it is over": ("edit", 0.0),
    "approved in the store with an earlier time": ("earlier", 0.0),
    "approved in the store with no time": ("never", 0.0),
    "proposed again with a longer one": ("again", 0.0),
    "proposed again without an end": ("endless", 0.0),
    "approved by the command line": ("cli", 0.0),
    "an approval kept for the next time": ("kept", 0.0),
}
_SHORT_S = 0.4


def control(kit: Kit) -> bool:
    """Just in time."""
    return kit.honest(expires_at=time.time() + 20.0)


def attack(kit: Kit, variant: tuple[str, float]) -> object:
    what, late = variant
    if what == "claim":
        proposal = kit.propose()
        kit.careless(proposal)
        key = kit.request(proposal)
        kit.settle(later_s=proposal.expires_at - time.time() + late)
        return kit.store.effects.get(key).state is not EffectState.REFUSED
    proposal = kit.propose(expires_at=time.time() + _SHORT_S)
    if what in ("kept", "again", "endless"):
        kit.careless(proposal)
    time.sleep(_SHORT_S + 0.1)
    opened = _late(kit, proposal, what)
    kit.request(proposal)
    return opened


def _late(kit: Kit, proposal: Proposal, what: str) -> object:
    match what:
        case "approve":
            return kit.approve(proposal).is_success
        case "edit":
            body = {"bound_hash": proposal.bound_hash, "changes": {}}
            return kit.decide(proposal.id, "edit", body).is_success
        case "cli":
            return kit.cli("proposals", "approve", proposal.id, "--yes").returncode == 0
        case "again":
            kit.store.proposals.put(as_new(proposal, expires_at=time.time() + 3600))
        case "endless":
            kit.store.proposals.put(as_new(proposal, expires_at=2e10))
        case "kept":
            kit.store.proposals.put(as_new(proposal, expires_at=time.time() + 3600))
            kit.request(kit.store.proposals.get(proposal.id), f"{proposal.id}:kept")
    return None
