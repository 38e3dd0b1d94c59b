"""The curve that matters, beside it what changed and what Lathe is doing; all keep themselves up to date."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from ui import palette
from ui.case import curve
from ui.client import Client
from ui.components import feed
from ui.components.markup import escape
from ui.components.messages import errors_shown, show_empty
from ui.components.series_plot import figure, marks, show_changes, show_zoomable
from ui.records import Case, Run

LIVE_S = 2.0
IDLE_S = 10.0
HEIGHT = 400


def show(client: Client, run: Run, case: Case | None) -> None:
    left, right = st.columns([2.6, 1], gap="medium")
    works = run.state == "running" or (case is not None and case.investigation.state != "closed")
    with left:
        show_curve(client, run, case)
    with right:
        show_changes(marks(client.timeline(run.id)))
        st.fragment(feed.show, run_every=LIVE_S if works else IDLE_S)(client, case.investigation.id if case else None)


def show_curve(client: Client, run: Run, case: Case | None, *, height: int = HEIGHT) -> None:
    """`height` in pixels."""
    st.fragment(_draw, run_every=LIVE_S if run.state == "running" else None)(client, run, case, height)


def _draw(client: Client, run: Run, case: Case | None, height: int) -> None:
    with errors_shown():
        names = _names(client, run, case)
        if names is None:
            show_empty(f"{run.name} has not made a step yet", "Its first point appears here by itself.")
            return
        events = client.timeline(run.id)
        fixed = case is not None and curve.fix_segment(case, events) is not None
        focus = names.title
        keys = curve.legend(names, faulty=case is not None, fixed=fixed)
        st.html(f'<div class="lt-title"><b>{escape(run.name)}: {escape(focus)}</b><div>{keys}</div></div>')
        show_zoomable(
            f"curve:{run.id}:{names.focus[0]}",
            f"{focus} of {run.name} over optimizer steps",
            lambda window: figure(
                replace(curve.plot(client, case, run.id, names, events, window), height=height), palette.current()
            ),
        )


def _names(client: Client, run: Run, case: Case | None) -> curve.Names | None:
    """What departs, by the statistic that the person chose; the loss of a run without a finding."""
    if case is None or case.leading is None or not case.leading.series:
        return curve.names_of_run(client, run.id)
    statistics = curve.by_statistic(case.leading)
    chosen = next(iter(statistics))
    if len(statistics) > 1:
        label = "What departs (the first decides the verdict)"
        chosen = st.selectbox(label, list(statistics), width=380)
    return curve.names_around(client, run.id, statistics[chosen])
