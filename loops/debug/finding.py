"""What a detector says, and the one method a detector has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote

from contracts.evidence import EvidenceRef
from contracts.team import TeamRole
from loops.debug.measure import Probe
from loops.debug.view import RunView


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One anomaly of one run.

    `onset` is an inclusive interval of steps. `severity` 0..1. `standalone` False: a fact that joins a case but never
    opens one. `specificity` orders findings of one case, most specific and internal first (higher first).
    `supplied_by`: the role of the team whose material it rests on (R801-3.9).
    """

    kind: str
    series: tuple[str, ...]
    layers: tuple[int, ...]
    onset: tuple[int, int]
    severity: float
    statement: str
    evidence: tuple[EvidenceRef, ...]
    probe: Probe
    specificity: int
    standalone: bool = True
    supplied_by: TeamRole = TeamRole.METRIC_INSPECTOR


class Detector(Protocol):
    """A pure function of a run. It stays silent on what it cannot judge: missing series, gaps, few points."""

    def __call__(self, view: RunView) -> list[Finding]: ...


def series_ref(run_id: str, name: str, lo: int, hi: int) -> EvidenceRef:
    """Evidence: the points lo..hi of one series."""
    return EvidenceRef(kind="series", id=f"{run_id}/{quote(name, safe='')}", slice=f"{lo}..{hi}")


def words(items: tuple[object, ...]) -> str:
    """'5', '5 and 7', '1, 5 and 7'."""
    texts = [str(item) for item in items]
    return texts[-1] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def layers_phrase(layers: tuple[int, ...]) -> str:
    """'layer 5' or 'layers 5 and 7'."""
    return f"layer{'s' if len(layers) > 1 else ''} {words(layers)}"


def steps_phrase(onset: tuple[int, int]) -> str:
    """'at step 180' or 'at steps 180-195'."""
    return f"at step {onset[0]}" if onset[0] == onset[1] else f"at steps {onset[0]}-{onset[1]}"
