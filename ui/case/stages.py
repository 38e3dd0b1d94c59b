"""How far a case is: seven stages from the first finding to the verified fix."""

from __future__ import annotations

from dataclasses import dataclass

from ui.components.markup import escape
from ui.records import Case


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One step of the way. `state`: done, now, ahead or skipped."""

    label: str
    state: str


def stages(case: Case) -> tuple[Stage, ...]:
    """Stages in order; the first that is not done is the current one while the case is open."""
    approved = any(proposal.state == "approved" for proposal in case.proposals)
    decided = any(proposal.state != "open" for proposal in case.proposals)
    closed = case.investigation.state == "closed"
    done = {
        "Noticed": bool(case.anomalies),
        "Suspects ranked": bool(case.suspects),
        "Re-runs": bool(case.verdicts),
        "Verdict": bool(case.verdicts),
        "Your decision": decided,
        "Fix applied": approved and fix_applied(case),
        "Verified": approved and closed and fix_applied(case),
    }
    found: list[Stage] = []
    current_taken = closed
    for label, is_done in done.items():
        state = "done" if is_done else "ahead" if current_taken else "now"
        current_taken = current_taken or not is_done
        found.append(Stage(label=label, state="skipped" if closed and not is_done else state))
    return tuple(found)


def fix_applied(case: Case) -> bool:
    """Whether the approved change was carried out."""
    return any(effect.changes_a_run and effect.state == "done" for effect in case.effects)


def render(case: Case) -> str:
    signs = {"done": "✔", "now": "●", "ahead": "○", "skipped": "–"}
    items = "".join(
        f'<li class="lt-{stage.state}"><i>{signs[stage.state]}</i>{escape(stage.label)}</li>' for stage in stages(case)
    )
    return f'<ol class="lt-stages">{items}</ol>'
