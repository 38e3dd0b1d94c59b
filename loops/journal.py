"""What the runner writes down for people and for later: one ledger entry and one message of the live feed per step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from context_store import Store
from contracts.events import Scalar
from contracts.evidence import EvidenceRef

_WINDOW = 500  # entries of one case that are looked through for a repeated step


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One step of one case. `step` names it uniquely inside the case, so that a repeated step is written once."""

    case_id: str
    actor: str
    action: str
    step: str
    text: str
    kind: str = "progress"  # of the live feed: progress, finding or approval
    detail: Mapping[str, Scalar] | None = None
    evidence: Sequence[EvidenceRef] = ()


class Journal:
    """Writes entries that survive repetition: a node that runs again after a crash adds nothing."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock

    def write(self, entry: Entry) -> None:
        """Append to the ledger and publish, unless the case's ledger already holds this step."""
        subject = str(EvidenceRef(kind="investigation", id=entry.case_id))
        known = self._store.ledger.list(subject=subject, limit=_WINDOW)
        if any(old.action == entry.action and old.detail.get("step") == entry.step for old in known):
            return
        detail = {"step": entry.step, "text": entry.text, **(entry.detail or {})}
        self._store.ledger.append(  # first: a crash after it loses a message of the feed, but repeats none
            actor=entry.actor,
            action=entry.action,
            subject=subject,
            detail=detail,
            evidence=tuple(entry.evidence),
            at=self._clock(),
        )
        self._store.activity.publish(entry.kind, entry.text, investigation_id=entry.case_id, run_id=None, detail=detail)
