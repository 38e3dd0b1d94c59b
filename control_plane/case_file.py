"""One case with everything that belongs to it, as the API and `lathe diagnose --json` give it."""

from __future__ import annotations

from typing import Any

from context_store import Store
from context_store.records import BudgetState
from contracts.enums import EffectKind, EffectState
from contracts.errors import NotFound

_MAX_ACTIVITY = 500
_CHANGES_A_RUN = (EffectKind.RESUME_WITH_PATCH, EffectKind.START_RUN)


def case_file(store: Store, case_id: str) -> dict[str, Any]:
    """Everything stored about a case. `verification_run`: result of the effect that carried the fix, or None."""
    case = store.knowledge.investigation(case_id)
    effects = store.effects.list(investigation_id=case_id)
    changes = [each for each in effects if each.kind in _CHANGES_A_RUN and each.state == EffectState.DONE]
    return {
        "investigation": case,
        "run": store.runs.get(case.run_id) if case.run_id else None,
        "anomalies": store.knowledge.anomalies(investigation_id=case_id),
        "suspects": store.knowledge.suspects(case_id),
        "diagnostics": store.knowledge.diagnostics(case_id),
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
