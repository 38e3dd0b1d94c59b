"""What people said about a finding, and saying it: acknowledge, snooze, mute, false alarm."""

from __future__ import annotations

from datetime import UTC, datetime

import streamlit as st

from ui import session
from ui.catalog import Mark
from ui.components.markup import escape, when, words
from ui.components.messages import show_error
from ui.transport import ApiError

_HOUR_S = 3600.0
_KINDS = {
    "acknowledged": "Acknowledge: I have seen it",
    "snoozed": "Snooze: not before later",
    "muted": "Mute: not again in this run",
    "false_alarm": "False alarm: nothing was wrong",
    "reopened": "Take back what was said before",
}
_SIGNS = {"acknowledged": "✔", "snoozed": "☾", "muted": "⊘", "false_alarm": "✕", "reopened": "↺"}


def chip(mark: Mark | None) -> str:
    """HTML of what counts now; "" while nobody said anything, or what was said is over."""
    if mark is None or mark.kind == "reopened" or _is_over(mark):
        return ""
    until = f" until {escape(when(mark.until))}" if mark.until else ""
    said = f": {mark.comment}" if mark.comment else ""
    title, sign = escape(f"{mark.actor}, {when(mark.at)}{said}"), _SIGNS.get(mark.kind, "·")
    return (
        f'<span class="lt-chip lt-triage" title="{title}">{sign} {escape(words(mark.kind))}{until}'
        f"<small>{escape(mark.actor)}</small></span>"
    )


def _is_over(mark: Mark) -> bool:
    return mark.until is not None and mark.until <= datetime.now(tz=UTC)


def show(subject: str, mark: Mark | None) -> None:
    """A button that opens the form; nothing for a viewer."""
    if session.principal().role == "viewer":
        return
    label = "Change what was said" if chip(mark) else "Acknowledge, snooze, mute"
    with st.popover(label, icon=":material/notifications:", key=f"triage:{subject}"):
        _show_form(subject, mark)


def _show_form(subject: str, mark: Mark | None) -> None:
    kind = st.radio("What about it?", list(_KINDS), format_func=lambda key: _KINDS[key], key=f"triage-kind:{subject}")
    hours = 0.0
    if kind == "snoozed":
        hours = st.number_input("For how many hours", min_value=0.25, value=12.0, step=1.0, key=f"triage-h:{subject}")
    comment = st.text_input(
        "Why (needed for a false alarm)", key=f"triage-why:{subject}", max_chars=2000, placeholder="a planned restart"
    )
    if mark is not None:
        said = f": {mark.comment}" if mark.comment else ""
        st.html(f"<p class='lt-muted'>Last: {escape(mark.actor)}, {escape(words(mark.kind))}{escape(said)}</p>")
    if not st.button("Save", type="primary", key=f"triage-save:{subject}"):
        return
    try:
        session.client().mark(subject, kind, comment=comment, for_s=hours * _HOUR_S or None)
    except ApiError as error:
        show_error(error)
    else:
        st.rerun()
