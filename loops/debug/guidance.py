"""What a person said in chat, or a model suggested, as the debug loop takes it up: for the whole of one step.

A step is planned several times (after a crash, and by each node that asks for the plan again), so what it was planned
with is written down first; what is said meanwhile counts from the next step on.
"""

from __future__ import annotations

from dataclasses import replace

from agents.guidance import Guidance, entries, is_guidance, sum_up
from context_store import Store
from contracts.evidence import EvidenceRef
from loops.debug.facts import Facts

_ACTOR, _TAKEN_UP = "loop:debug", "take_up_guidance"


def take_up(store: Store, case_id: str) -> Guidance:
    """Guidance for the step that is being planned; new guidance is taken up unless a plan waits to be measured."""
    known = entries(store, case_id)
    given = [entry for entry in known if is_guidance(entry)]
    pending = next((entry.action for entry in known if entry.action in ("propose", "measure")), "") == "propose"
    upto = _upto(store, case_id)
    if given and given[0].id > upto and not pending:
        detail = {"upto": given[0].id, "text": "what was said about the order of suspects counts from this step on"}
        subject = str(EvidenceRef(kind="investigation", id=case_id))
        store.ledger.append(_ACTOR, _TAKEN_UP, subject, detail, (), given[0].at)
        store.activity.publish("progress", str(detail["text"]), investigation_id=case_id, detail=detail)
    return in_force(store, case_id)


def in_force(store: Store, case_id: str) -> Guidance:
    """What was taken up so far."""
    upto = _upto(store, case_id)
    given = [entry for entry in entries(store, case_id) if is_guidance(entry) and entry.id <= upto]
    return sum_up(reversed(given))


def arranged(facts: Facts, guidance: Guidance) -> Facts:
    """The facts with suspects in the order that was asked for, and the weights that go with it. What a re-run showed is
    not touched."""
    ordered = sorted(facts.ranked, key=lambda option: guidance.place(option.key))
    weights = sorted((option.weight for option in ordered), reverse=True)
    return replace(facts, ranked=tuple(replace(o, weight=w) for o, w in zip(ordered, weights, strict=True)))


def _upto(store: Store, case_id: str) -> int:
    """Id of the newest guidance that was taken up."""
    return max((int(e.detail["upto"]) for e in entries(store, case_id) if e.action == _TAKEN_UP), default=0)
