"""Changes and happenings over steps, in lanes; each kind has a sign, so that no colour is needed to tell them apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from ui.components.markup import escape
from ui.palette import Palette
from ui.records import TimelineEvent

_SYMBOLS = {
    "code": "diamond", "config": "square", "data": "triangle-up", "environment": "hexagon", "resume": "arrow-right",
    "fork": "arrow-up", "checkpoint": "line-ns-open", "eval": "star", "approval": "circle", "note": "circle-open",
}  # fmt: skip
_LANE = 64  # pixels
_FRAME = 96
_SPREAD = 0.75  # of a lane, over which the kinds are spread so that signs at one step lie apart


def figure(lanes: Mapping[str, Sequence[TimelineEvent]], colours: Palette) -> go.Figure:
    """`lanes`: events by the name of their lane, the first on top."""
    places = {name: float(-index) for index, name in enumerate(lanes)}
    kinds = list(dict.fromkeys(event.kind for events in lanes.values() for event in events))
    chart = go.Figure()
    for kind in kinds:
        found = [(name, event) for name, events in lanes.items() for event in events if event.kind == kind]
        offsets = {name: _offset(kind, lanes[name]) for name in lanes}
        chart.add_scatter(
            x=[event.step for _, event in found],
            y=[places[name] + offsets[name] for name, _ in found],
            mode="markers",
            marker={"symbol": _SYMBOLS.get(kind, "x"), "size": 10, "color": _colour(kind, colours),
                    "line": {"width": 1.5, "color": _colour(kind, colours)}},
            name=escape(kind),
            text=[escape(event.title) for _, event in found],
            hovertemplate=f"{escape(kind)}, step %{{x}}: %{{text}}<extra></extra>",
        )  # fmt: skip
    mixed = any(len({event.kind for event in events}) > 1 for events in lanes.values())
    _lay_out(chart, places, colours, has_legend=mixed)
    return chart


def _offset(kind: str, lane: Sequence[TimelineEvent]) -> float:
    """Height of a kind within its lane."""
    kinds = sorted({event.kind for event in lane})
    if kind not in kinds or len(kinds) == 1:
        return 0.0
    return _SPREAD * (0.5 - kinds.index(kind) / (len(kinds) - 1))


def _lay_out(chart: go.Figure, places: Mapping[str, float], colours: Palette, *, has_legend: bool) -> None:
    chart.update_layout(
        height=_FRAME + _LANE * len(places),
        margin={"l": 8, "r": 12, "t": 34, "b": 8},
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.0, "x": 0.0},
        showlegend=has_legend,
        font={"color": colours.ink},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        xaxis={
            "title": {"text": "optimizer step", "standoff": 8}, "gridcolor": colours.faint, "zeroline": False,
            "rangemode": "tozero",
        },
        yaxis={
            "tickvals": list(places.values()), "ticktext": [escape(name) for name in places],
            "gridcolor": colours.faint, "zeroline": False, "range": [min(places.values()) - 0.6, 0.6],
        },
    )  # fmt: skip


def _colour(kind: str, colours: Palette) -> str:
    if kind == "checkpoint":
        return colours.reference
    return colours.cycle[list(_SYMBOLS).index(kind) % len(colours.cycle)] if kind in _SYMBOLS else colours.ink
