"""What Lathe concludes, how far that reaches, how sure it is, and what would overturn it."""

from __future__ import annotations

import streamlit as st

from ui.components import chips
from ui.components.markup import escape, percent
from ui.records import Case, Verdict


def show(case: Case) -> None:
    if case.verdicts:
        st.html("<h3>Verdict</h3>" + "".join(render(verdict) for verdict in case.verdicts))


def render(verdict: Verdict) -> str:
    return (
        f'<div class="lt-card lt-verdict-card">{chips.verdict(verdict.verdict, verdict.scope)}'
        f"<p class='lt-statement'>{escape(verdict.statement)}</p>{effect(verdict)}"
        f"<p><b>What would overturn it:</b> {escape(verdict.would_overturn)}</p>"
        f"<div>{chips.evidence(verdict.evidence)}</div></div>"
    )


def effect(verdict: Verdict) -> str:
    """The effect as a share of the anomaly, its interval, and the number of re-runs it rests on."""
    count = f"{verdict.num_reruns} re-run{'s' if verdict.num_reruns != 1 else ''}"
    if verdict.effect is None:
        return f'<p class="lt-muted">{count}</p>'
    between = ""
    if verdict.interval:
        between = f" (95 % interval {percent(verdict.interval[0])} to {percent(verdict.interval[1])})"
    return f"<p>Effect: <b>{percent(verdict.effect)}</b> of the anomaly{between}, from {count}.</p>"
