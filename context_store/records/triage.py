"""What people said about findings, and how often each detector was wrong."""

from __future__ import annotations

from dataclasses import dataclass

from contracts.enums import TriageKind


@dataclass(frozen=True, kw_only=True)
class TriageMark:
    """One word of one person on one finding. `subject`: `anomaly:ID` or `investigation:ID`.

    `until`: unix seconds, for SNOOZED only. The last mark of a subject counts.
    """

    id: int
    subject: str
    kind: TriageKind
    actor: str
    comment: str
    at: float
    until: float | None = None

    def is_quiet(self, now: float) -> bool:
        """True while nobody wants to be told of it."""
        if self.kind is TriageKind.SNOOZED:
            return self.until is not None and now < self.until
        return self.kind in (TriageKind.MUTED, TriageKind.FALSE_ALARM)


@dataclass(frozen=True, kw_only=True)
class DetectorRecord:
    """`kind` of the anomalies of one detector; how many it found, and how many people call false alarms."""

    kind: str
    num_findings: int
    num_false_alarms: int
