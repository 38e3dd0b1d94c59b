"""A made-up diagnosis: a harmless commit is said to have moved MaxVio once, so memory has something to recognise."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.false_alarm_parts.plants import late, scaled
from context_store import Store
from context_store.records import Anomaly, Suspect
from contracts.enums import CauseKind, InvestigationState, Scope, Verdict
from contracts.evidence import EvidenceRef
from loops.debug.measure import Probe, Reading
from loops.debug.view import RunView

_CASE, _FACTOR, _NOISE = "case-made-up", 0.3, 0.2
_NEVER = 10**9


def remember(store: Store, runs: Sequence[str], commit: str) -> Callable[[RunView], RunView]:
    """Store the diagnosis as that of the newest run; what plants its anomaly into another."""
    probe = _fall()
    evidence = (EvidenceRef(kind="run", id=runs[-1]),)
    anomaly = store.knowledge.put_anomaly(
        Anomaly(
            run_id=runs[-1],
            kind="over_balance",
            series=probe.series,
            onset=(1, 1),
            severity=0.5,
            statement="MaxVio fell in all layers",
            evidence=evidence,
            probe=probe.to_json(),
        )
    )
    store.knowledge.open_investigation(_CASE, runs[-1], [anomaly.id], title="MaxVio fell", at=0.0)
    store.knowledge.put_suspect(
        Suspect(
            investigation_id=_CASE,
            key=f"commit:{commit}",
            cause_kind=CauseKind.CODE,
            title="a harmless commit",
            commits=(commit,),
            evidence=evidence,
            score=1.0,
            rank=1,
            status=Verdict.PROVEN,
        )
    )
    store.knowledge.set_investigation(
        _CASE, state=InvestigationState.CLOSED, verdict=Verdict.PROVEN, scope=Scope.THIS_RUN
    )
    return lambda view: scaled(view, {r"max_vio/layers\..*": np.where(late(view), _FACTOR, 1.0)})


def _fall() -> Probe:
    """MaxVio of four layers at a third."""
    layers = tuple(f"max_vio/layers.{layer}" for layer in range(4))
    return Probe(
        series=layers,
        reading=Reading.LOG_LEVEL,
        normal=(0.0,) * len(layers),
        anomalous=(float(np.log(_FACTOR)),) * len(layers),
        noise=(_NOISE,) * len(layers),
        since=1,
        until=_NEVER,
    )
