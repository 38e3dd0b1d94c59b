"""A statistic of every layer (or expert) over steps, as one picture: one that goes astray is a stripe of its own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from statistics import median

import plotly.graph_objects as go
import streamlit as st

from ui.catalog import LayerMap
from ui.client import Client
from ui.components import units
from ui.components.markup import escape
from ui.components.messages import errors_shown
from ui.components.series_plot import Window, show_zoomable
from ui.palette import Palette

COLUMNS = 300
Grid = tuple[tuple[float | None, ...], ...]
_LAYER = re.compile(r"^([^/]+)/layers\.(\d+)((?:\.[^/]*)?)$")
_EXPERT = re.compile(r"^([^/]+)/layers\.(\d+)/experts\.(\d+)$")
_ROW_HEIGHT, _FRAME, _LEAST, _MOST = 26, 90, 260, 900  # pixels
_CLIP = 0.995  # of the values lie within the colours; what lies beyond has the colour of the end


def statistics(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Per-layer series by what they measure (`max_vio`, `grad_norm router`), in layer order."""
    found: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        if match := _LAYER.match(name):
            statistic, layer, module = match.groups()
            found.setdefault(f"{statistic}{module.replace('.', ' ')}", []).append((int(layer), name))
    return {key: tuple(name for _, name in sorted(layers)) for key, layers in found.items() if len(layers) > 1}


def experts(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Per-expert series by statistic and layer (`expert_load, layer 5`), in the order of layers and experts."""
    found: dict[tuple[str, int], list[tuple[int, str]]] = {}
    for name in names:
        if match := _EXPERT.match(name):
            statistic, layer, expert = match.groups()
            found.setdefault((statistic, int(layer)), []).append((int(expert), name))
    return {
        f"{statistic}, layer {layer}": tuple(name for _, name in sorted(found[statistic, layer]))
        for statistic, layer in sorted(found)
    }


def against_others(values: Grid) -> Grid:
    """Each value less the median of its column: what all rows do together is taken out."""
    columns = [[value for value in column if value is not None] for column in zip(*values, strict=True)]
    middles = [median(column) if column else 0.0 for column in columns]
    return tuple(
        tuple(None if value is None else value - middle for value, middle in zip(row, middles, strict=True))
        for row in values
    )


def figure(found: LayerMap, statistic: str, row_word: str, colours: Palette, *, relative: bool = False) -> go.Figure:
    """`row_word`: layer or expert. `relative`: `against_others`, in colours that part at zero."""
    rows = [int(re.findall(r"\d+", name)[-1]) for name in found.names]
    values = against_others(found.values) if relative else found.values
    lo, hi = _range([value for row in values for value in row if value is not None], relative=relative)
    chart = go.Figure(
        go.Heatmap(
            x=found.steps, y=rows, z=values, colorscale="PuOr" if relative else "Cividis", zmin=lo, zmax=hi,
            colorbar={"thickness": 12, "outlinewidth": 0, "title": {"text": escape(statistic), "side": "right"}},
            hovertemplate=f"{row_word} %{{y}}, step %{{x}}: %{{z:.4g}}<extra></extra>", hoverongaps=False,
        )
    )  # fmt: skip
    if found.broken:
        chart.add_scatter(
            x=[point.step for point in found.broken], y=[rows[point.row] for point in found.broken], mode="markers",
            marker={"symbol": "x", "color": colours.faulty}, showlegend=False,
            hovertemplate=f"{row_word} %{{y}} is not finite at step %{{x}}<extra></extra>",
        )  # fmt: skip
    _make_selectable(chart, found, rows)
    _lay_out(chart, statistic, row_word, rows, colours)
    if found.steps:
        half = (found.steps[1] - found.steps[0]) / 2 if len(found.steps) > 1 else 0.5
        chart.update_xaxes(range=[found.steps[0] - half, found.steps[-1] + half])
        chart.update_yaxes(range=[min(rows) - 0.5, max(rows) + 0.5])
    return chart


def _range(values: Sequence[float], *, relative: bool) -> tuple[float, float]:
    """What the ends of the colours stand for; a few extreme values do not pale all others."""
    if not values:
        return 0.0, 1.0
    if relative:
        far = sorted(abs(value) for value in values)
        end = far[min(len(far) - 1, int(len(far) * _CLIP))] or 1.0
        return -end, end
    ordered = sorted(values)
    return ordered[0], ordered[min(len(ordered) - 1, int(len(ordered) * _CLIP))]


def _make_selectable(chart: go.Figure, found: LayerMap, rows: Sequence[int]) -> None:
    """A heatmap alone has no box selection; these points are not seen."""
    chart.add_scatter(
        x=found.steps, y=[rows[len(rows) // 2]] * len(found.steps) if rows else [], mode="markers",
        marker={"opacity": 0.0}, hoverinfo="skip", showlegend=False,
    )  # fmt: skip


def _lay_out(chart: go.Figure, statistic: str, row_word: str, rows: Sequence[int], colours: Palette) -> None:
    chart.update_layout(
        height=min(_MOST, max(_LEAST, _ROW_HEIGHT * len(rows) + _FRAME)), margin={"l": 8, "r": 8, "t": 30, "b": 8},
        title={"text": escape(units.axis_title(statistic)), "font": {"size": 13}}, font={"color": colours.ink},
        paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)", dragmode="select", selectdirection="h",
        xaxis={"title": {"text": "optimizer step"}, "showgrid": False, "zeroline": False},
        yaxis={"title": {"text": row_word}, "dtick": max(1, len(rows) // 16), "showgrid": False, "zeroline": False},
    )  # fmt: skip


def show(client: Client, run_id: str, statistic: str, names: Sequence[str], row_word: str, colours: Palette) -> None:
    """Call it inside a fragment; a running training redraws it, and a box on it is fetched again."""
    with errors_shown():
        relative = st.toggle(f"Against the other {row_word}s: what all do together is taken out")
        show_zoomable(
            f"map:{run_id}:{statistic}:{relative}",
            f"{statistic} of every {row_word} over steps",
            partial(_draw, client, run_id, statistic, names, row_word, colours, relative),
            shared=f"run:{run_id}",
        )
        st.html(
            f'<p class="lt-muted">A cell shows the value farthest from the median of all {row_word}s in its steps, so '
            "neither a peak nor a dip is lost; a cross marks NaN or infinity. Draw a box to look closer.</p>"
        )


def _draw(
    client: Client,
    run_id: str,
    statistic: str,
    names: Sequence[str],
    row_word: str,
    colours: Palette,
    relative: bool,
    window: Window,
) -> go.Figure:
    found = client.layer_map(run_id, names, columns=COLUMNS, lo=window[0], hi=window[1])
    return figure(found, re.split("[ ,]", statistic)[0], row_word, colours, relative=relative)
