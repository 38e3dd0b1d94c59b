"""Scores with their intervals against the gates that decide on them, one line a case."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go
import streamlit as st

from ui.catalog import Gate, LoopScore, LoopScores
from ui.components import chips
from ui.components.markup import escape
from ui.components.messages import show_empty
from ui.components.tables import row, table
from ui.palette import Palette

MAX_CASES = 12
_SYMBOLS = ("diamond", "circle", "square", "triangle-up", "cross", "star", "hexagon", "x", "pentagon")
_LANE, _FRAME = 90, 140  # pixels
_SPREAD = 0.75  # of a lane, over which groups lie apart where their scores are equal
_HEADS = ("Case", "What", "Score", "95 % interval")
_VERDICT = "verdict"


def figure(scores: Sequence[LoopScore], gates: Sequence[Gate], unit: str, colours: Palette) -> go.Figure:
    """A verdict's effect is large and has its interval; the single measures lie below it, each group at its height."""
    places = {case_id: float(-index) for index, case_id in enumerate(dict.fromkeys(s.case_id for s in scores))}
    groups = list(dict.fromkeys(score.group for score in scores))
    chart = go.Figure()
    for index, group in enumerate(groups):
        own = [score for score in scores if score.group == group]
        colour = colours.ink if group == _VERDICT else colours.cycle[index % len(colours.cycle)]
        chart.add_scatter(
            x=[score.value for score in own], mode="markers",
            y=[places[score.case_id] + _SPREAD * (0.5 - index / max(1, len(groups) - 1)) for score in own],
            name=escape(group), text=[escape(score.label) for score in own],
            hovertemplate="%{text}: %{x:.3g}<extra></extra>",
            marker={"symbol": _SYMBOLS[index % len(_SYMBOLS)], "size": 13 if group == _VERDICT else 9, "color": colour},
            error_x=_intervals(own, colour),
        )  # fmt: skip
    for gate in gates:
        chart.add_vline(
            x=gate.value, line={"color": colours.reference, "dash": "dash", "width": 1.5},
            annotation={"text": escape(f"{gate.label} {gate.value:g}"), "font": {"color": colours.ink}},
            annotation_position="top",
        )  # fmt: skip
    chart.update_layout(
        height=_FRAME + _LANE * len(places), margin={"l": 8, "r": 12, "t": 46, "b": 84}, font={"color": colours.ink},
        paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)",
        legend={"orientation": "h", "yref": "container", "yanchor": "bottom", "y": 0.0, "x": 0.0},
        xaxis={"title": {"text": escape(unit), "standoff": 6}, "gridcolor": colours.faint, "zeroline": False},
        yaxis={
            "tickvals": list(places.values()), "ticktext": [escape(case_id) for case_id in places],
            "gridcolor": colours.faint, "zeroline": False, "range": [min(places.values(), default=0.0) - 0.6, 0.6],
        },
    )  # fmt: skip
    return chart


def _intervals(scores: Sequence[LoopScore], colour: str) -> dict[str, object]:
    return {
        "type": "data",
        "symmetric": False,
        "array": [0.0 if score.hi is None else score.hi - score.value for score in scores],
        "arrayminus": [0.0 if score.lo is None else score.value - score.lo for score in scores],
        "color": colour,
        "visible": any(score.lo is not None for score in scores),
    }


def show(found: LoopScores, colours: Palette, *, key: str) -> None:
    """The newest cases as a picture, their verdicts as a table."""
    if not found.scores:
        show_empty("Nothing was measured yet", "Re-runs and verdicts put their numbers here.")
        return
    newest = list(dict.fromkeys(score.case_id for score in found.scores))[:MAX_CASES]
    shown = [score for score in found.scores if score.case_id in newest]
    st.plotly_chart(
        figure(shown, found.gates, found.unit, colours),
        key=f"scores:{key}",
        config={"displayModeBar": False},
        alt="scores of the newest cases with their intervals and the gates",
    )
    verdicts = [score for score in shown if score.group == _VERDICT]
    st.html(table(_HEADS, [_row(score) for score in verdicts]))


def _row(score: LoopScore) -> str:
    between = "–" if score.lo is None or score.hi is None else f"{score.lo:.3g} to {score.hi:.3g}"
    case = chips.evidence([f"investigation:{score.case_id}"])
    return row([case, escape(score.label), f"{score.value:.3g}", between])
