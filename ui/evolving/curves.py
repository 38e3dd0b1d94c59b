"""Three kinds of tasks, never on one axis: what may be looked at, what only decides, what was sealed."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go
import streamlit as st

from ui import palette
from ui.catalog import Evolution
from ui.components.markup import escape

Points = Sequence[tuple[float | str, float | None]]


def show(whole: Evolution) -> None:
    gate = [(each["round"], each["mean"]) for each in whole.rounds if each["num_pairs"]]
    _chart(
        "fix", "Fix tasks: the incumbent's share solved (traces visible, no evidence of a gain)", _incumbents(whole),
        across="round", up="share of the fix tasks solved",
    )  # fmt: skip
    _chart(
        "gate", "Gate: mean difference of each candidate in pairs", gate,
        across="round", up="difference of shares", smallest=_smallest(whole),
    )  # fmt: skip
    _show_sealed(whole)


def _incumbents(whole: Evolution) -> Points:
    fix = {node["commit"]: node["passed"] / max(1, node["episodes"]) for node in whole.nodes}
    best, line = fix.get(whole.summary["root"]), []
    for each in whole.rounds:
        best = fix.get(each["candidate"], best) if each["kept"] else best
        line.append((each["round"], best))
    return line


def _smallest(whole: Evolution) -> Points:
    """The gain that each candidate's pairs would have shown."""
    return [(each["round"], each["detectable"]) for each in whole.rounds if each["num_pairs"]]


def _show_sealed(whole: Evolution) -> None:
    sealed = whole.summary.get("sealed")
    if sealed is None:
        st.html("<p>Sealed tasks: not opened.</p>")
        return
    ends = _ENDS if sealed["detectable"] is not None else _ENDS[:1]
    points = [(name, share) for name, end in ends for share in sealed["by_seed"][end]]
    _chart(
        "sealed", "Sealed tasks: share solved, a point a seed, opened once", points,
        across="scaffold", up="share of the sealed tasks solved", lines=False,
    )  # fmt: skip
    st.html(f"<p>Sealed tasks: {escape(sealed['says'])}. Opened by {escape(sealed['opened_by'])}.</p>")


_ENDS = (("first", "first"), ("last", "last"))


def _chart(
    key: str, title: str, points: Points, *, across: str, up: str, lines: bool = True, smallest: Points | None = None
) -> None:
    colours = palette.current()
    chart = go.Figure(_line(points, "measured", "lines+markers" if lines else "markers", colours.healthy))
    if smallest:
        chart.add_trace(_line(smallest, "detectable gain", "markers", colours.reference, symbol="line-ew-open"))
    chart.update_layout(
        title=title, height=260, margin={"l": 40, "r": 10, "t": 40, "b": 30}, paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)", font={"color": colours.ink}, xaxis_title=across, yaxis_title=up,
        showlegend=bool(smallest),
    )  # fmt: skip
    st.plotly_chart(chart, key=f"evolution:{key}")


def _line(points: Points, name: str, mode: str, colour: str, symbol: str = "circle") -> go.Scatter:
    return go.Scatter(
        x=[x for x, _ in points],
        y=[y for _, y in points],
        name=name,
        mode=mode,
        marker={"symbol": symbol, "color": colour},
    )
