"""Which internal statistic moved before which one that people watch, and by how much (R801-3.2).

Said only when the two onset intervals do not overlap: a lead that could be zero is no lead.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from context_store.records import Anomaly
from contracts.evidence import EvidenceRef

_WATCHED = re.compile(r"(lm_loss|loss)([/@]|$)|eval|val")


@dataclass(frozen=True, kw_only=True)
class Lead:
    """`early` began at least `least` and at most `most` steps before `late`. `evidence`: the two anomalies."""

    early: str
    late: str
    least: int
    most: int
    evidence: tuple[EvidenceRef, ...] = ()

    @property
    def sentence(self) -> str:
        """'balance_loss/layers.2 moved 12 to 40 steps before lm_loss'."""
        steps = str(self.least) if self.least == self.most else f"{self.least} to {self.most}"
        return f"{self.early} moved {steps} steps before {self.late}"


def leads(anomalies: Sequence[Anomaly]) -> list[Lead]:
    """One lead for each watched statistic that moved, from the internal one that moved first."""
    moved = [anomaly for anomaly in anomalies if anomaly.series]
    internal = [anomaly for anomaly in moved if not _is_watched(anomaly)]
    first = min(internal, key=lambda anomaly: (anomaly.onset[1], anomaly.onset[0]), default=None)
    if first is None:
        return []
    return [
        Lead(
            early=first.series[0],
            late=late.series[0],
            least=late.onset[0] - first.onset[1],
            most=late.onset[1] - first.onset[0],
            evidence=tuple(EvidenceRef(kind="anomaly", id=str(each.id)) for each in (first, late)),
        )
        for late in moved
        if _is_watched(late) and late.onset[0] > first.onset[1]
    ]


def _is_watched(anomaly: Anomaly) -> bool:
    return _WATCHED.match(anomaly.series[0]) is not None
