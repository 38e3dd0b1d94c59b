"""The versions of a classifier as a ladder: each one's score with its interval, and whether it was taken."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go
import streamlit as st

from ui import palette
from ui.classified import Version
from ui.classifying.labelling import interval
from ui.components.markup import escape
from ui.components.messages import show_empty
from ui.components.tables import row, table
from ui.palette import Palette

_HEADS = ("Version", "What it changes", "Labels", "F1 (95 %)", "Decision", "Its mistakes")
_MAX_CLUSTERS = 3


def show(versions: Sequence[Version]) -> None:
    if not versions:
        show_empty("No version yet", "The first one comes once its texts are labelled.")
        return
    st.plotly_chart(
        figure(versions, palette.current()),
        key="ladder",
        config={"displayModeBar": False},
        alt="F1 of each version with its interval; filled where it was taken",
    )
    st.html(table(_HEADS, [_row(each) for each in versions]))


def figure(versions: Sequence[Version], colours: Palette) -> go.Figure:
    """Filled: taken. The line joins the versions that stood one after the other."""
    chart = go.Figure()
    measured = [each for each in versions if each.f1 is not None and each.f1.value is not None]
    taken = [each for each in measured if each.is_taken]
    chart.add_scatter(
        x=[each.number for each in taken], y=[_value(each) for each in taken], mode="lines", hoverinfo="skip",
        line={"color": colours.fixed, "width": 2, "shape": "hv"}, name="stands",
    )  # fmt: skip
    for is_taken, symbol, colour in ((True, "circle", colours.fixed), (False, "x-open", colours.faulty)):
        own = [each for each in measured if each.is_taken is is_taken]
        chart.add_scatter(
            x=[each.number for each in own], y=[_value(each) for each in own], mode="markers",
            name="taken" if is_taken else "not taken", text=[escape(each.why) for each in own],
            hovertemplate="version %{x}: %{y:.3f}<br>%{text}<extra></extra>",
            marker={"symbol": symbol, "size": 12, "color": colour}, error_y=_intervals(own, colour),
        )  # fmt: skip
    chart.update_layout(
        height=320, margin={"l": 8, "r": 12, "t": 16, "b": 8}, font={"color": colours.ink},
        paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)", legend={"orientation": "h", "y": 1.12},
        xaxis={"title": {"text": "version"}, "dtick": 1, "gridcolor": colours.faint, "zeroline": False},
        yaxis={"title": {"text": "F1, agreement with the reference"}, "gridcolor": colours.faint, "zeroline": False},
    )  # fmt: skip
    return chart


def _value(version: Version) -> float:
    assert version.f1 is not None
    assert version.f1.value is not None
    return version.f1.value


def _intervals(versions: Sequence[Version], colour: str) -> dict[str, object]:
    pairs = [(each.f1.low, each.f1.high) if each.f1 is not None else (None, None) for each in versions]
    values = [_value(each) for each in versions]
    up = [0.0 if high is None else high - value for (_, high), value in zip(pairs, values, strict=True)]
    down = [0.0 if low is None else value - low for (low, _), value in zip(pairs, values, strict=True)]
    return {"type": "data", "symmetric": False, "array": up, "arrayminus": down, "color": colour}


def _row(version: Version) -> str:
    sign = '<span class="lt-good">✔ taken</span>' if version.is_taken else '<span class="lt-bad">✕ not taken</span>'
    mistakes = "".join(f"<li>{escape(each.sentence)}</li>" for each in version.clusters[:_MAX_CLUSTERS])
    return row([
        f"<b>{version.number}</b>", escape(version.why), "–" if version.num_labels is None else str(version.num_labels),
        interval(version.f1), f"{sign}<div class='lt-muted'>{escape(version.reason)}</div>",
        f'<ul class="lt-plain">{mistakes}</ul>' if mistakes else "–",
    ])  # fmt: skip
