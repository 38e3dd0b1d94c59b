"""The canary board: for each canary what was watched, and in which rounds it was hit."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go
import streamlit as st

from ui import palette
from ui.catalog import Evolution
from ui.components import chips
from ui.components.markup import escape
from ui.components.tables import row, table

_HEADS = ("Canary", "What it means", "Watched", "Hits", "In rounds")
_GOOD = "control"  # the one that is meant to be seen


def show(whole: Evolution) -> None:
    rows, verdict = whole.summary["canaries"], whole.summary["canaries_say"]
    st.html(f"<h3>Canary board</h3><p>{escape(verdict)}</p>" + table(_HEADS, [row(_cells(each)) for each in rows]))
    if whole.rounds:
        st.plotly_chart(_grid(rows, [each["round"] for each in whole.rounds]), key="evolution:canaries")


def _cells(each: dict[str, Any]) -> list[str]:
    count = f"{each['total']} of {each['watched']} seen" if each["canary"] == _GOOD else str(each["total"])
    return [chips.tag(each["canary"]), *map(escape, (each["what"], each["coverage"], count, each["in_rounds"]))]


def _grid(rows: list[dict[str, Any]], rounds: list[int]) -> go.Figure:
    """Hits of candidates: canaries down, rounds across, from the first scaffold (0) on."""
    colours, across = palette.current(), [0, *rounds]
    counts = [[dict(map(tuple, each["hits"])).get(number, 0) for number in across] for each in rows]
    names, most = [each["canary"] for each in rows], max(1, *map(max, counts))
    chart = go.Figure(
        go.Heatmap(
            x=across, y=names, z=counts, zmin=0, zmax=most, xgap=1, ygap=1,
            colorscale=[[0, colours.faint], [1, colours.faulty]], colorbar={"title": "hits", "dtick": 1},
            hovertemplate="%{y}, round %{x}: %{z} hits<extra></extra>",
        )
    )  # fmt: skip
    chart.update_layout(
        title="Hits in each round", height=260, margin={"l": 70, "r": 10, "t": 40, "b": 30}, xaxis_title="round",
        paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)", font={"color": colours.ink},
    )  # fmt: skip
    return chart
