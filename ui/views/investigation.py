"""One investigation whole: what was found, who could have done it, the proof, the decision, and what came of it."""

from __future__ import annotations

import streamlit as st

from ui import links, palette, session
from ui.case import (
    aftermath,
    decision,
    finding,
    findings,
    headline,
    memory,
    picture,
    reruns,
    suspects,
    triage,
    verdict,
)
from ui.catalog import Mark
from ui.client import Client
from ui.components import feed
from ui.components.markup import escape
from ui.records import Case


def page(case_id: str) -> None:
    client = session.client()
    headline.show(client, session.health(), here=case_id)
    case = client.investigation(case_id)
    if case.run is None:
        _show_without_run(client, case)
        return
    picture.show(client, case.run, case)
    marks = client.marks([_subject(case), *(findings.subject(each.id) for each in case.anomalies)])
    finding.show(case, triage.chip(marks.get(_subject(case))))
    _show_triage(case, marks)
    show_rest(client, case)


def _show_without_run(client: Client, case: Case) -> None:
    """Of a loop that looks at something else than a run: what it says, what it is doing, and what it asks."""
    told, doing = st.columns([2.6, 1], gap="medium")
    with told:
        st.html(f"<h2>{escape(case.investigation.title)}</h2><p>{escape(case.investigation.statement)}</p>")
        if case.investigation.loop == "classifier":
            address = escape(links.classifier(case.investigation.id))
            st.html(f'<p><a href="{address}" target="_self">Label its texts, and see its versions and mistakes</a></p>')
    with doing:
        every = picture.LIVE_S if case.investigation.state != "closed" else picture.IDLE_S
        st.fragment(feed.show, run_every=every)(client, case.investigation.id)
    decision.show(client, case)
    memory.show(client, case)


def show_rest(client: Client, case: Case) -> None:
    suspects.show(case)
    reruns.show(client, case, palette.current())
    verdict.show(case)
    decision.show(client, case)
    aftermath.show(client, case, palette.current())
    memory.show(client, case)


def _subject(case: Case) -> str:
    return f"investigation:{case.investigation.id}"


def _show_triage(case: Case, marks: dict[str, Mark]) -> None:
    """Of the whole case, and of each finding where there are several."""
    triage.show(_subject(case), marks.get(_subject(case)))
    if len(case.anomalies) < 2:
        return
    with st.expander(f"The {len(case.anomalies)} findings of this case, each by itself"):
        for anomaly in case.anomalies:
            said, act = st.columns([4, 1.4], vertical_alignment="center")
            mark = marks.get(findings.subject(anomaly.id))
            said.html(f"<p>{escape(anomaly.statement)} {triage.chip(mark)}</p>")
            with act:
                triage.show(findings.subject(anomaly.id), mark)
