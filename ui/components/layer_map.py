"""A statistic of every layer over steps, as one picture: a layer that goes astray is a stripe of another colour."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import plotly.graph_objects as go
import streamlit as st

from ui.client import Client
from ui.components import units
from ui.components.markup import escape
from ui.components.messages import errors_shown
from ui.palette import Palette
from ui.records import Series

COLUMNS = 300
_LAYER = re.compile(r"^([^/]+)/layers\.(\d+)((?:\.[^/]*)?)$")
Grid = list[list[float | None]]


def statistics(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Per-layer series by what they measure (`max_vio`, `grad_norm router`), in layer order."""
    found: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        if match := _LAYER.match(name):
            statistic, layer, module = match.groups()
            found.setdefault(f"{statistic}{module.replace('.', ' ')}", []).append((int(layer), name))
    return {key: tuple(name for _, name in sorted(layers)) for key, layers in found.items() if len(layers) > 1}


def binned(series: Sequence[Series], columns: int = COLUMNS) -> tuple[list[int], Grid]:
    """(first step of each column, largest value by layer and column); None where a layer has no finite point."""
    steps = [step for one in series for step in one.steps]
    if not steps:
        return [], []
    first, width = min(steps), max(1, math.ceil((max(steps) - min(steps) + 1) / columns))
    count = (max(steps) - first) // width + 1
    grid: Grid = []
    for one in series:
        row: list[float | None] = [None] * count
        for step, value in zip(one.steps, one.values, strict=True):
            place = (step - first) // width
            known = row[place]
            if math.isfinite(value) and (known is None or value > known):
                row[place] = value
        grid.append(row)
    return [first + index * width for index in range(count)], grid


def figure(series: Sequence[Series], statistic: str, colours: Palette) -> go.Figure:
    columns, grid = binned(series)
    layers = [int(match[2]) for one in series if (match := _LAYER.match(one.name))]
    values = sorted(value for row in grid for value in row if value is not None)
    top = values[min(len(values) - 1, int(len(values) * 0.995))] if values else 1.0
    chart = go.Figure(
        go.Heatmap(
            x=columns, y=layers, z=grid, colorscale="Cividis", zmin=values[0] if values else 0.0, zmax=top,
            colorbar={"title": {"text": "", "side": "right"}, "thickness": 12, "outlinewidth": 0},
            hovertemplate="layer %{y}, step %{x}: %{z:.4g}<extra></extra>", hoverongaps=False,
        )
    )  # fmt: skip
    for one, layer in zip(series, layers, strict=True):
        broken = [step for step, value in zip(one.steps, one.values, strict=True) if not math.isfinite(value)]
        if broken:
            chart.add_scatter(
                x=broken, y=[layer] * len(broken), mode="markers", marker={"symbol": "x", "color": colours.faulty},
                hovertemplate=f"layer {layer} is not finite at step %{{x}}<extra></extra>", showlegend=False,
            )  # fmt: skip
    chart.update_layout(
        height=max(260, 26 * len(layers) + 90), margin={"l": 8, "r": 8, "t": 30, "b": 8},
        title={"text": escape(units.axis_title(statistic)), "font": {"size": 13}}, font={"color": colours.ink},
        paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)",
        xaxis={"title": {"text": "optimizer step"}, "showgrid": False},
        yaxis={"title": {"text": "layer"}, "dtick": max(1, len(layers) // 16), "showgrid": False, "zeroline": False},
    )  # fmt: skip
    return chart


def show(client: Client, run_id: str, statistic: str, names: Sequence[str], colours: Palette) -> None:
    """Call it inside a fragment; a running training redraws it."""
    with errors_shown():
        found = client.points(run_id, names, buckets=COLUMNS)
        st.plotly_chart(
            figure(found, statistic.partition(" ")[0], colours),
            key=f"map:{run_id}:{statistic}",
            config={"displayModeBar": False},
            alt=f"{statistic} of every layer over steps",
        )
        st.html('<p class="lt-muted">Each column shows its largest value; a cross marks NaN or infinity.</p>')
