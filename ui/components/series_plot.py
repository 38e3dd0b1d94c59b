"""Series over optimizer steps, with what changed on the same axis and the interval in which an anomaly began.

A box drawn on the plot asks the API again for that step range: zooming refines, it never enlarges old points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import plotly.graph_objects as go
import streamlit as st

from ui.components.markup import escape
from ui.palette import Palette
from ui.records import Onset, Series, TimelineEvent

LABEL_HEIGHT = 15  # pixels
FRAME = 100  # pixels of the height that are not plot: margins, axis title
MAX_TITLES = 4  # of one mark
BUCKETS = 450  # the API keeps up to four points a bucket (first, last, smallest, largest): at most 1,800 a trace
_CHANGES = frozenset({"code", "config", "data", "environment", "resume", "fork"})
Window = tuple[int | None, int | None]
WHOLE: Window = (None, None)


@dataclass(frozen=True, kw_only=True)
class Zoom:
    """The steps a plot shows. Each change is another turn: a new plot, on which the old box is not drawn."""

    window: Window = WHOLE
    turn: int = 0


class Style(StrEnum):
    """What a line is to the reader."""

    FAULTY = "faulty"
    HEALTHY = "healthy"
    FIXED = "fixed"
    REFERENCE = "reference"  # drawn behind: peers, the other run
    CONTROL = "control"  # drawn behind: the same training as it goes when nothing is wrong
    PLAIN = "plain"  # a series somebody chose; colours by order


_BEHIND = (Style.REFERENCE, Style.CONTROL)
_DASHES = ("solid", "dash", "dot")


@dataclass(frozen=True, kw_only=True)
class Line:
    label: str
    series: Series
    style: Style = Style.PLAIN
    named: bool = True  # its name stands at its end


@dataclass(frozen=True, kw_only=True)
class Mark:
    """Changes at one step, with the letter that stands for them on the plot."""

    letter: str
    step: int
    kind: str
    titles: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Plot:
    lines: tuple[Line, ...]
    y_title: str
    marks: tuple[Mark, ...] = ()
    onset: Onset | None = None
    height: int = 400
    end_labels: bool = True


def marks(events: Sequence[TimelineEvent]) -> tuple[Mark, ...]:
    """Changes grouped by step, lettered in order; checkpoints and notes are left out."""
    by_step: dict[int, list[TimelineEvent]] = {}
    for event in sorted(events, key=lambda event: event.step):
        if event.kind in _CHANGES:
            by_step.setdefault(event.step, []).append(event)
    return tuple(
        Mark(letter=_letter(index), step=step, kind=group[0].kind, titles=tuple(event.title for event in group))
        for index, (step, group) in enumerate(by_step.items())
    )


def _letter(index: int) -> str:
    turns, place = divmod(index, 26)
    return chr(ord("A") + place) + (str(turns) if turns else "")


def figure(plot: Plot, colours: Palette) -> go.Figure:
    """The chart; pure, so that it can be tested without a browser."""
    chart = go.Figure()
    named: list[tuple[Line, str]] = []
    for index, line in enumerate(sorted(plot.lines, key=lambda line: line.style not in _BEHIND)):
        colour = _colour(line.style, index, colours)
        turn = index // len(colours.cycle) if line.style is Style.PLAIN else 0
        chart.add_trace(_trace(line, colour, turn))
        if broken := _non_finite(line, colour):
            chart.add_trace(broken)
        if line.named and line.style not in _BEHIND:
            named.append((line, colour))
    if plot.end_labels:
        _label_ends(chart, plot, named)
    for mark in plot.marks:
        _draw_mark(chart, mark, colours)
    if plot.onset:
        lo, hi = plot.onset
        chart.add_vrect(x0=lo, x1=max(hi, lo + 1), fillcolor=colours.onset, line_width=0, layer="below")
    _lay_out(chart, plot, colours)
    return chart


def _colour(style: Style, index: int, colours: Palette) -> str:
    by_meaning = {
        Style.FAULTY: colours.faulty,
        Style.HEALTHY: colours.healthy,
        Style.FIXED: colours.fixed,
        Style.REFERENCE: colours.reference,
        Style.CONTROL: colours.ink,
    }
    return by_meaning.get(style, colours.cycle[index % len(colours.cycle)])


def _trace(line: Line, colour: str, turn: int) -> go.Scatter:
    """`turn`: how often the colours were used up before it; each time takes another dash."""
    behind = line.style in _BEHIND
    dash = {Style.HEALTHY: "dot", Style.CONTROL: "dash"}.get(line.style, _DASHES[turn % len(_DASHES)])
    return go.Scatter(
        x=line.series.steps,
        y=[value if math.isfinite(value) else None for value in line.series.values],
        mode="lines",
        line={"color": colour, "width": 1 if behind else 2, "dash": dash},
        opacity=0.65 if behind else 1.0,
        name=escape(line.label),
        hovertemplate=f"{escape(line.label)} %{{y:.4g}}<extra></extra>",
    )


def _non_finite(line: Line, colour: str) -> go.Scatter | None:
    """NaN and infinities as crosses on the upper rim, so that no gap goes unnoticed."""
    found = [(s, v) for s, v in zip(line.series.steps, line.series.values, strict=True) if not math.isfinite(v)]
    if not found:
        return None
    top = max(line.series.finite(), default=1.0)
    return go.Scatter(
        x=[step for step, _ in found],
        y=[top] * len(found),
        mode="markers",
        marker={"symbol": "x", "size": 9, "color": colour},
        text=[str(value) for _, value in found],
        hovertemplate=f"{escape(line.label)} is %{{text}} at step %{{x}}<extra></extra>",
        showlegend=False,
    )


def _label_ends(chart: go.Figure, plot: Plot, coloured: Sequence[tuple[Line, str]]) -> None:
    """Names at the right ends of the lines, moved apart where they would cover each other."""
    values = [value for line in plot.lines for value in line.series.finite()]
    per_unit = (plot.height - FRAME) / ((max(values) - min(values)) or 1.0) if values else 0.0
    ends = []
    for line, colour in coloured:
        finite = [(s, v) for s, v in zip(line.series.steps, line.series.values, strict=True) if math.isfinite(v)]
        if finite:
            ends.append((*finite[-1], line, colour))
    lowest: dict[int, float] = {}  # height in pixels that is taken at a step
    for step, value, line, colour in sorted(ends, key=lambda end: end[1]):
        height = max(value * per_unit, lowest.get(step, -math.inf) + LABEL_HEIGHT)
        lowest[step] = height
        chart.add_annotation(
            x=step, y=value, yshift=height - value * per_unit, text=escape(line.label), showarrow=False,
            xanchor="left", xshift=6, font={"color": colour, "size": 12},
        )  # fmt: skip


def _draw_mark(chart: go.Figure, mark: Mark, colours: Palette) -> None:
    chart.add_vline(x=mark.step, line={"color": colours.ink, "width": 1, "dash": "dot"}, opacity=0.55)
    chart.add_annotation(
        x=mark.step, y=1.0, yref="paper", yanchor="bottom", text=f"<b>{mark.letter}</b>", showarrow=False,
        font={"size": 12, "color": colours.ink}, bordercolor=colours.reference, borderwidth=1, borderpad=2,
        bgcolor=colours.ground, hovertext="<br>".join(escape(title) for title in mark.titles),
    )  # fmt: skip


def _lay_out(chart: go.Figure, plot: Plot, colours: Palette) -> None:
    axis = {"gridcolor": colours.faint, "zeroline": False, "linecolor": colours.reference, "title": {"standoff": 8}}
    chart.update_layout(
        height=plot.height,
        margin={"l": 8, "r": 86 if plot.end_labels else 12, "t": 30, "b": 8},
        showlegend=False,
        hovermode="x unified",
        dragmode="select",
        selectdirection="h",
        font={"color": colours.ink},
        hoverlabel={"namelength": -1},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        xaxis={**axis, "title": {"text": "optimizer step", "standoff": 6}, "showgrid": False},
        yaxis={**axis, "title": {"text": plot.y_title, "standoff": 8}},
    )


def show_zoomable(
    key: str, title: str, draw: Callable[[Window], go.Figure], *, shared: str = "", begin: Window = WHOLE
) -> None:
    """A plot whose selected step range is fetched again through `draw`; call it inside a fragment.

    Plots of one fragment with the same `shared` name show the same steps. `begin`: what is shown at first.
    """
    state = f"zoom:{shared or key}"
    zoom: Zoom = st.session_state.get(state, Zoom(window=begin))
    plot_key = f"{key}:{zoom.turn}"
    st.plotly_chart(
        draw(zoom.window),
        key=plot_key,
        on_select=partial(_zoom_in, state, plot_key),
        selection_mode="box",
        config={"displayModeBar": False, "scrollZoom": False},
        alt=title,
    )
    if zoom.window != WHOLE:
        lo, hi = zoom.window
        st.button(
            f"Steps {lo}–{hi} · show all steps",
            key=f"whole:{key}",
            icon=":material/zoom_out:",
            on_click=_set_window,
            args=(state, WHOLE),
        )


def _zoom_in(state: str, plot_key: str) -> None:
    boxes = st.session_state[plot_key]["selection"]["box"]
    if boxes:
        lo, hi = sorted(float(edge) for edge in boxes[0]["x"][:2])
        _set_window(state, (max(0, math.floor(lo)), math.ceil(hi)))


def _set_window(state: str, window: Window) -> None:
    st.session_state[state] = Zoom(window=window, turn=st.session_state.get(state, Zoom()).turn + 1)


def show_changes(found: Sequence[Mark]) -> None:
    """The letters of the plot and what they stand for."""
    items = "".join(
        f'<li><b class="lt-letter">{mark.letter}</b><div>{_titles(mark)}<small>{escape(mark.kind)}, step {mark.step}'
        "</small></div></li>"
        for mark in found
    )
    st.html(f'<section class="lt-side"><h4>What changed</h4><ul>{items or "<li>Nothing on record</li>"}</ul></section>')


def _titles(mark: Mark) -> str:
    shown = "<br>".join(escape(title) for title in mark.titles[:MAX_TITLES])
    rest = len(mark.titles) - MAX_TITLES
    return f"{shown}<br>and {rest} more" if rest > 0 else shown
