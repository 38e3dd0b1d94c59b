"""A small curve for every other training that runs now, so that none goes astray unseen."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from ui import links, palette
from ui.case import curve
from ui.client import Client
from ui.components import units
from ui.components.markup import escape
from ui.components.messages import errors_shown
from ui.components.series_plot import Line, Plot, figure
from ui.records import Run

LIVE_S = 5.0
COLUMNS, MAX_RUNS = 3, 6
HEIGHT, BUCKETS = 190, 100


def show(client: Client, runs: Sequence[Run]) -> None:
    """Nothing where no other training runs."""
    if runs:
        st.fragment(_draw, run_every=LIVE_S)(client, tuple(runs))


def _draw(client: Client, runs: tuple[Run, ...]) -> None:
    st.html("<h3>Also running</h3>")
    shown = runs[:MAX_RUNS]
    for start in range(0, len(shown), COLUMNS):
        row = st.columns(COLUMNS, gap="small")
        for place, run in zip(row, shown[start : start + COLUMNS], strict=False):
            with place, errors_shown():
                _draw_one(client, run)
    if rest := len(runs) - len(shown):
        st.html(f'<p><a href="/runs" target="_self">{rest} more are running</a></p>')


def _draw_one(client: Client, run: Run) -> None:
    st.html(f'<a href="{escape(links.run(run.id))}" target="_self"><b>{escape(run.name)}</b></a>')
    names = curve.names_of_run(client, run.id)
    if names is None:
        st.html("<p class='lt-muted'>It has not made a step yet.</p>")
        return
    (series,) = client.points(run.id, names.focus, buckets=BUCKETS)
    title = units.brief(series.name)
    line = Line(label=units.short(series.name), series=series)
    drawn = figure(Plot(lines=(line,), y_title=title, height=HEIGHT, end_labels=False), palette.current())
    drawn.update_layout(margin={"l": 4, "r": 4, "t": 4, "b": 4}, dragmode=False)
    drawn.update_yaxes(nticks=4, automargin=True)
    drawn.update_xaxes(nticks=4, automargin=True)
    st.plotly_chart(
        drawn, key=f"also:{run.id}", config={"displayModeBar": False}, alt=f"{series.name} of {run.name} over steps"
    )
