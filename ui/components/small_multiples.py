"""Small multiples: many short charts on one scale, each against the same reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go
import streamlit as st

from ui.components.markup import escape
from ui.components.series_plot import Line, Plot, figure
from ui.palette import Palette
from ui.records import Onset

HEIGHT = 200
_TITLE_SIZE = 11


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One chart with its caption; `tone` is departs, healthy or open."""

    key: str
    role: str
    label: str
    reading: str
    tone: str
    lines: tuple[Line, ...]


def value_range(panels: Sequence[Panel]) -> tuple[float, float] | None:
    """One y scale for all, so that heights compare."""
    values = [value for panel in panels for line in panel.lines for value in line.series.finite()]
    if not values:
        return None
    margin = (max(values) - min(values)) * 0.06 or 0.1
    return min(values) - margin, max(values) + margin


def step_range(panels: Sequence[Panel]) -> tuple[int, int] | None:
    """The steps that the re-runs cover; the reference may be longer."""
    steps = [s for panel in panels for line in panel.lines[-1:] for s in line.series.steps]
    return (min(steps), max(steps)) if steps else None


def chart(
    panel: Panel, y_title: str, scale: tuple[float, float], span: tuple[int, int], onset: Onset, colours: Palette
) -> go.Figure:
    """`y_title`: escaped, as `units.brief` makes it."""
    drawn = figure(
        Plot(lines=panel.lines, y_title="", onset=onset, height=HEIGHT, end_labels=False),
        colours,
    )
    drawn.update_layout(margin={"l": 4, "r": 4, "t": 4, "b": 4}, dragmode=False)
    title = {"font": {"size": _TITLE_SIZE}, "standoff": 4}
    drawn.update_yaxes(range=list(scale), nticks=4, automargin=True, title={**title, "text": y_title})
    drawn.update_xaxes(range=list(span), nticks=4, automargin=True, title={**title, "text": "optimizer step"})
    return drawn


def show_grid(
    key: str, panels: Sequence[Panel], y_title: str, onset: Onset, colours: Palette, *, columns: int = 4
) -> None:
    """All panels in rows of `columns`, those not yet run as a note."""
    scale, span = value_range(panels), step_range(panels)
    for start in range(0, len(panels), columns):
        row = st.columns(columns, gap="small")
        for place, panel in zip(row, panels[start : start + columns], strict=False):
            with place:
                st.html(caption(panel))
                if panel.lines and scale and span:
                    st.plotly_chart(
                        chart(panel, y_title, scale, span, onset, colours),
                        key=f"{key}:{panel.key}",
                        config={"displayModeBar": False},
                        alt=f"{panel.label}: {panel.reading}",
                    )


def caption(panel: Panel) -> str:
    return (
        f'<div class="lt-panel lt-{escape(panel.tone)}"><small>{escape(panel.role)}</small>'
        f"<b>{escape(panel.label)}</b><span>{escape(panel.reading)}</span></div>"
    )
