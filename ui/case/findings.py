"""Everything that was found in one run, with or without a case, and what people say about it."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from ui import links
from ui.case import triage
from ui.catalog import Finding, Mark
from ui.client import Client
from ui.components import chips
from ui.components.markup import escape, steps, words
from ui.components.messages import show_empty

MAX_SHOWN = 20


def show(client: Client, run_id: str) -> None:
    """The earliest first."""
    found = client.findings(run_id)
    ordered = sorted(found.findings, key=lambda each: (each.onset, each.id))
    st.html("<h3>What was found in this run</h3>")
    if not ordered:
        show_empty(found.sentence or "Nothing was found so far", f"`lathe detect {run_id}` looks now.")
        return
    ordered = of_role(ordered, run_id)
    shown = ordered[:MAX_SHOWN]
    said = client.marks([subject(each.id) for each in shown])
    for each in shown:
        mark = said.get(subject(each.id))
        text, act = st.columns([4, 1.4], vertical_alignment="center")
        text.html(render(each, mark))
        with act:
            triage.show(subject(each.id), mark)
    if rest := len(ordered) - len(shown):
        st.html(f"<p class='lt-muted'>{rest} began later: <code>lathe detect {escape(run_id)}</code> lists all.</p>")


def of_role(found: Sequence[Finding], run_id: str) -> list[Finding]:
    """Those of the role of the team that the reader chooses, where several supplied something."""
    roles = sorted({each.supplied_by for each in found} - {""})
    chosen = None
    if len(roles) > 1:
        chosen = st.pills("Supplied by", roles, format_func=words, key=f"supplied-by-{run_id}")
    return [each for each in found if chosen in (None, each.supplied_by)]


def subject(anomaly_id: int) -> str:
    return f"anomaly:{anomaly_id}"


def render(finding: Finding, mark: Mark | None) -> str:
    """HTML: the sentence, since when, and the case, if there is one."""
    if finding.investigation_id is None:
        case = "<span class='lt-muted'>no case was opened for it</span>"
    else:
        outcome = f": {words(finding.verdict)}" if finding.verdict else ""
        address = escape(links.investigation(finding.investigation_id))
        case = f'<a href="{address}" target="_self">its case{escape(outcome)}</a>'
    role = chips.fact("from the", words(finding.supplied_by)) if finding.supplied_by else ""
    past = "".join(f"<div class='lt-muted'>seen before: {escape(each)}</div>" for each in finding.seen_before)
    return (
        f'<div class="lt-found"><b>{escape(finding.statement)}</b>{past}<div class="lt-facts">'
        f"{chips.fact('began', steps(finding.onset))}{role}{case}{triage.chip(mark)}</div>"
        f"<div>{chips.evidence(finding.evidence)}</div></div>"
    )
