"""Pass an outer edge of a dual loop without the approval of exactly this edge at this place."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from benchmarks.trust_attacks.kit import Kit
from context_store.experiments import edge_payload
from context_store.records import Amount, Experiment, Proposal
from contracts.enums import EffectKind, Role, Stage

VARIANTS: dict[str, Any] = {
    "without a proposal": "none",
    "with one that nobody approved": "open",
    "with another note": "note",
    "with that of another experiment": "experiment",
    "with one of another kind": "kind",
    "with the one that was used": "used",
    "as an inner edge": "inner",
    "straight to the end": "end",
    "straight to the analysis": "skip",
    "from a place it never reached": "sequence",
    "as an effect": "effect",
    "twice at the same place": "twice",
    "after it was rejected": "rejected",
    "with a budget it does not have": "budget",
}


def _open(kit: Kit, name: str = "") -> Experiment:
    amount = Amount(cpu_s=10.0)
    return kit.store.experiments.open(f"x-{kit.name}{name}", kit.name, "ada", time.time(), amount)


def _proposal(kit: Kit, experiment: Experiment, note: str = "go") -> Proposal:
    payload = edge_payload(experiment, Stage.DEVELOP, note)
    return kit.propose(EffectKind.NEXT_STAGE, payload=payload, investigation_id=None)


def control(kit: Kit) -> bool:
    experiment = _open(kit)
    proposal = _proposal(kit, experiment)
    kit.approve(proposal)
    return kit.store.experiments.pass_outer(experiment, Stage.DEVELOP, proposal.id, "go").stage is Stage.DEVELOP


def attack(kit: Kit, variant: str) -> object:
    experiment, store = _open(kit), kit.store.experiments
    if variant in ("inner", "end", "skip", "budget"):
        after = {"inner": Stage.DEVELOP, "end": Stage.ENDED, "skip": Stage.ANALYSE, "budget": Stage.DEVELOP}[variant]
        store.pass_inner(experiment, after, Amount(cpu_s=99.0 if variant == "budget" else 0.0), "go", "loop:dual")
        return True
    proposal = _proposal(kit, experiment)
    match variant:
        case "none":
            store.pass_outer(experiment, Stage.DEVELOP, "pr-none", "go")
        case "open":
            store.pass_outer(experiment, Stage.DEVELOP, proposal.id, "go")
        case "rejected":
            kit.store.proposals.reject(proposal.id, "honest", Role.REVIEWER, "no", time.time())
            store.pass_outer(experiment, Stage.DEVELOP, proposal.id, "go")
        case _:
            return _with_an_approval(kit, experiment, proposal, variant)
    return True


def _with_an_approval(kit: Kit, experiment: Experiment, proposal: Proposal, variant: str) -> object:
    store = kit.store.experiments
    if variant in ("used", "twice"):
        kit.approve(proposal)
        moved = store.pass_outer(experiment, Stage.DEVELOP, proposal.id, "go")
        store.pass_outer(experiment if variant == "twice" else moved, Stage.DEVELOP, proposal.id, "go")
        return True
    if variant == "kind":
        proposal = kit.propose(EffectKind.NOTIFY, investigation_id=None)
    kit.careless(proposal)
    match variant:
        case "experiment":
            store.pass_outer(_open(kit, "-other"), Stage.DEVELOP, proposal.id, "go")
        case "sequence":
            store.pass_outer(dataclasses.replace(experiment, sequence=4), Stage.DEVELOP, proposal.id, "go")
        case "effect":
            kit.request(proposal)
            kit.settle()
            return store and kit.store.experiments.history(experiment.id) != []
        case _:
            store.pass_outer(experiment, Stage.DEVELOP, proposal.id, "evil" if variant == "note" else "go")
    return True
