"""Names, logs and diffs are data: how they become HTML and chart text that shows them as text."""

from __future__ import annotations

import html
import math
import re
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import streamlit as st


def escape(value: object) -> str:
    """For HTML, attributes included, and for Plotly texts, which read tags and entities too."""
    return html.escape(str(value), quote=True)


def as_label(text: str) -> str:
    """For labels of buttons, which Streamlit reads as Markdown: every sign stands for itself."""
    return re.sub(r"([^\w\s])", r"\\\1", " ".join(text.split()))


def report(text: str) -> str:
    """A stored report, whose images would make the browser fetch foreign addresses: only their words remain."""
    return re.sub(r"!\[([^\]]*)\]\s*(\([^)]*\)|\[[^\]]*\])?", r"(picture: \1)", text)


def when(moment: datetime) -> str:
    """In the viewer's time zone, for instance `3 Jun 2026, 06:12`."""
    return moment.astimezone(_zone()).strftime("%-d %b %Y, %H:%M")


def clock(moment: datetime) -> str:
    """Time of day in the viewer's time zone; with the day where that is not today."""
    local = moment.astimezone(_zone())
    is_today = local.date() == datetime.now(_zone()).date()
    return local.strftime("%H:%M:%S" if is_today else "%-d %b %H:%M")


def _zone() -> ZoneInfo:
    try:
        return ZoneInfo(st.context.timezone or "UTC")
    except (ZoneInfoNotFoundError, ValueError):  # a browser may name a zone this machine does not know
        return ZoneInfo("UTC")


def percent(share: float | None) -> str:
    return "–" if share is None else f"{round(100 * share)} %" if math.isfinite(share) else str(share)


def words(key: str) -> str:
    """A stored word such as `cannot_tell` as people write it."""
    return key.replace("_", " ")


def steps(onset: tuple[int, int]) -> str:
    lo, hi = onset
    return f"step {lo}" if lo == hi else f"steps {lo}–{hi}"
