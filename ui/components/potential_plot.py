"""Potential over tokens, the fan of protocols, ranks before and after, learnability with bands. Pure figures."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from ui.components.markup import escape
from ui.palette import Palette
from ui.potential import Best, Curves, Learning, RankRow, Reading

_HEIGHT = 360
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")


def curves(found: Reading | Curves, colours: Palette) -> go.Figure:
    """Base and after the same SFT, never one alone; a dot a seed."""
    chart, tokens = go.Figure(), [each / 1e6 for each in found.tokens]
    means = [sum(scores) / len(scores) for scores in found.sft]
    chart.add_scatter(x=tokens, y=found.base, name="base", mode="lines+markers", line={"color": colours.healthy})
    chart.add_scatter(
        x=tokens, y=means, name="after the same SFT", mode="lines+markers",
        line={"color": colours.faulty, "dash": "dash"}, marker={"symbol": "square"},
    )  # fmt: skip
    for index, scores in enumerate(zip(*found.sft, strict=True)):
        chart.add_scatter(
            x=tokens, y=scores, mode="markers", showlegend=False,
            marker={"size": 5, "color": colours.faulty, "opacity": 0.5},
            hovertemplate=f"seed {index + 1}: %{{y:.1f}}<extra></extra>",
        )  # fmt: skip
    return _laid_out(chart, "million tokens", "points", colours)


def fan(best: dict[int, Best], tokens: Sequence[int], colours: Palette) -> go.Figure:
    """A line a protocol; the corrected best of each checkpoint with its interval."""
    chart, x, each = go.Figure(), [count / 1e6 for count in tokens], list(best.values())
    for index, name in enumerate(each[0].means):
        chart.add_scatter(
            x=x, y=[one.means.get(name) for one in each], name=escape(name), mode="lines+markers",
            line={"color": colours.cycle[index % len(colours.cycle)], "dash": _DASHES[index % len(_DASHES)]},
        )  # fmt: skip
    chart.add_scatter(
        x=x, y=[one.value for one in each], name="best, corrected", mode="markers",
        marker={"symbol": "triangle-up", "size": 11, "color": colours.ink},
        error_y={
            "type": "data", "symmetric": False, "array": [one.high - one.value for one in each],
            "arrayminus": [one.value - one.low for one in each], "color": colours.ink,
        },
    )  # fmt: skip
    return _laid_out(chart, "million tokens", "points", colours)


def slopes(rows: Sequence[RankRow], colours: Palette) -> go.Figure:
    """Rank of each checkpoint before and after; 1 is on top."""
    chart = go.Figure()
    for index, row in enumerate(rows):
        chart.add_scatter(
            x=["base", "after SFT"], y=[row.base_rank, row.sft_rank], mode="lines+markers+text", showlegend=False,
            text=["", f"step {escape(row.checkpoint)}"], textposition="middle right",
            line={"color": colours.cycle[index % len(colours.cycle)]},
            hovertemplate=f"{row.base:.1f}, after SFT {row.sft:.1f}<extra>step {escape(row.checkpoint)}</extra>",
        )  # fmt: skip
    _laid_out(chart, "", "rank (1 is best)", colours)
    chart.update_yaxes(autorange="reversed", dtick=1)
    chart.update_xaxes(range=[-0.3, 1.6])
    return chart


def learning(each: dict[int, Learning], colours: Palette) -> go.Figure:
    """Thin lines with hollow markers are measured, straight lines the fits, with their 95 % band."""
    chart = go.Figure()
    for index, (step, one) in enumerate(each.items()):
        colour = colours.cycle[index % len(colours.cycle)]
        means = [sum(column) / len(column) for column in zip(*one.scores, strict=True)]
        chart.add_scatter(
            x=one.budgets, y=means, name=f"step {step}", mode="lines+markers",
            line={"color": colour, "width": 1}, marker={"symbol": "circle-open"},
        )  # fmt: skip
        if one.fit is None:
            continue
        band = [row for row in one.fit.band if row[0] <= one.budgets[-1] * 1.001]
        x = [row[0] for row in band]
        chart.add_scatter(
            x=x, y=[row[1] for row in band], mode="lines", showlegend=False, line={"color": colour, "width": 2}
        )
        chart.add_scatter(
            x=[*x, *reversed(x)], y=[*(row[3] for row in band), *(row[2] for row in reversed(band))],
            fill="toself", mode="none", showlegend=False, fillcolor=colour, opacity=0.12, hoverinfo="skip",
        )  # fmt: skip
    _laid_out(chart, "SFT steps", "points", colours)
    chart.update_xaxes(type="log")
    return chart


def _laid_out(chart: go.Figure, x_title: str, y_title: str, colours: Palette) -> go.Figure:
    chart.update_layout(
        height=_HEIGHT, margin={"l": 8, "r": 12, "t": 16, "b": 90}, font={"color": colours.ink},
        paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)",
        legend={"orientation": "h", "yref": "container", "yanchor": "bottom", "y": 0.0, "x": 0.0},
        xaxis={"title": {"text": x_title}, "gridcolor": colours.faint, "zeroline": False},
        yaxis={"title": {"text": y_title}, "gridcolor": colours.faint, "zeroline": False},
    )  # fmt: skip
    return chart
