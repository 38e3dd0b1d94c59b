"""Weights of the sources over steps, as areas that lie upon each other and add up to the whole mixture."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from ui.catalog import MixtureEvent
from ui.components.markup import escape
from ui.palette import Palette

HEIGHT = 340


def weights(events: Sequence[MixtureEvent], last_step: int) -> dict[str, tuple[list[int], list[float]]]:
    """(steps, weights) of each source, a value at every step at which any weight changed, and at the end."""
    steps = sorted({event.step for event in events} | {last_step})
    found: dict[str, tuple[list[int], list[float]]] = {}
    for source in dict.fromkeys(event.source for event in events):
        own = [event for event in events if event.source == source]
        values = [next((e.after or 0.0 for e in reversed(own) if e.step <= step), 0.0) for step in steps]
        found[source] = (steps, values)
    return found


def figure(events: Sequence[MixtureEvent], last_step: int, colours: Palette) -> go.Figure:
    chart = go.Figure()
    for index, (source, (steps, values)) in enumerate(weights(events, last_step).items()):
        colour = colours.cycle[index % len(colours.cycle)]
        chart.add_scatter(
            x=steps, y=values, mode="lines", name=escape(source), stackgroup="all",
            line={"color": colour, "width": 1.5, "shape": "hv"},
            hovertemplate=f"{escape(source)} %{{y:.4g}}<extra></extra>",
        )  # fmt: skip
    chart.update_layout(
        height=HEIGHT, margin={"l": 8, "r": 12, "t": 30, "b": 8}, font={"color": colours.ink}, hovermode="x unified",
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.0, "x": 0.0},
        paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)",
        xaxis={"title": {"text": "optimizer step"}, "showgrid": False, "zeroline": False},
        yaxis={"title": {"text": "weight (share of the batch)"}, "gridcolor": colours.faint, "rangemode": "tozero"},
    )  # fmt: skip
    return chart
