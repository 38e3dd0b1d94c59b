"""What was found in a run, and what silence means: for API and command line."""

from __future__ import annotations

from typing import Any

from context_store import Store
from context_store.records import Precedent
from contracts.enums import RunState
from contracts.team import TeamRole


def nothing_found(store: Store, run_id: str, role: TeamRole | None = None) -> str:
    """What silence means: how much was looked at, and how the run ended. Without a step nothing can be said."""
    if role is not None and (others := len(store.knowledge.anomalies(run_id=run_id))):
        return f"Nothing wrong found in what the {role.words} looks at; {others} found by other roles."
    run = store.runs.get(run_id)
    ended = f"It ended as {run.state}: {run.message}" if run.state == RunState.FAILED else ""
    if run.last_step == 0:
        return f"Run {run_id} has no step yet, so nothing can be said about it. {ended}".strip()
    scope = f"(observed: {len(store.series.names(run_id))} series up to step {run.last_step})"
    return f"Nothing wrong found {scope}. {ended}".strip()


def findings(store: Store, run_id: str, role: TeamRole | None = None) -> list[dict[str, Any]]:
    """Anomalies of a run (that a role of the team supplied), each with what its case found out (None while open)."""
    cases = {
        anomaly.id: case
        for case in store.knowledge.investigations(run_id=run_id)
        for anomaly in store.knowledge.anomalies(investigation_id=case.id)
    }
    return [
        {
            "id": anomaly.id,
            "run": run_id,
            "investigation_id": case.id if (case := cases.get(anomaly.id)) else None,
            "kind": anomaly.kind,
            "series": anomaly.series,
            "onset": anomaly.onset,
            "severity": anomaly.severity,
            "cause_kind": case.cause_kind if case else None,
            "verdict": case.verdict if case else None,
            "statement": anomaly.statement,
            "seen_before": [_told(each) for each in store.recurrence.like(anomaly)],
            "evidence": anomaly.evidence,
            "supplied_by": anomaly.supplied_by,
        }
        for anomaly in store.knowledge.anomalies(run_id=run_id)
        if role in (None, anomaly.supplied_by)
    ]


def _told(past: Precedent) -> str:
    """An earlier case that is like this one, in a sentence; what speaks against the same cause is said with it."""
    how = "the same circumstances" if past.is_strong else f"only a hint: {'; '.join(past.differs)}"
    return f"{past.title}: {past.diagnosis} ({how})"
