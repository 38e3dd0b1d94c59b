"""One case with everything that belongs to it, as the API and `lathe diagnose --json` give it."""

from __future__ import annotations

from typing import Any

from context_store import Store
from context_store.records import BudgetState
from contracts.enums import EffectKind, EffectState
from contracts.errors import NotFound
from contracts.team import TeamRole

_MAX_ACTIVITY = 500
_CHANGES_A_RUN = (EffectKind.RESUME_WITH_PATCH, EffectKind.START_RUN)


def case_file(store: Store, case_id: str, role: TeamRole | None = None) -> dict[str, Any]:
    """Everything stored about a case. `verification_run`: result of the effect that carried the fix, or None.
    `nature`: what the findings look like where no cause was proven (infrastructure, measurement, ...), else None.

    With a role only the anomalies and suspects that it supplied.
    """
    from loops.debug.nature import stored_nature  # heavy: not at every start

    case = store.knowledge.investigation(case_id)
    anomalies = [a for a in store.knowledge.anomalies(investigation_id=case_id) if role in (None, a.supplied_by)]
    suspects = [s for s in store.knowledge.suspects(case_id) if role in (None, s.supplied_by)]
    effects = store.effects.list(investigation_id=case_id)
    changes = [each for each in effects if each.kind in _CHANGES_A_RUN and each.state == EffectState.DONE]
    return {
        "investigation": case,
        "run": store.runs.get(case.run_id) if case.run_id else None,
        "anomalies": anomalies,
        "suspects": suspects,
        "supplied_by": {
            "anomalies": {anomaly.id: anomaly.supplied_by for anomaly in anomalies},
            "suspects": {suspect.key: suspect.supplied_by for suspect in suspects},
        },
        "diagnostics": store.knowledge.diagnostics(case_id),
        "nature": stored_nature(store, case_id),
        "verdicts": store.knowledge.verdicts(case_id),
        "proposals": store.proposals.list(investigation_id=case_id),
        "negatives": store.negatives.list(investigation_id=case_id),
        "effects": effects,
        "activity": store.activity.after(0, limit=_MAX_ACTIVITY, investigation_id=case_id),
        "report_markdown": store.knowledge.report(case_id),
        "budget": _budget(store, case_id),
        "verification_run": changes[-1].result if changes else None,
    }


def _budget(store: Store, case_id: str) -> BudgetState | None:
    """None until the loop opened it."""
    try:
        return store.budgets.state(case_id)
    except NotFound:
        return None
