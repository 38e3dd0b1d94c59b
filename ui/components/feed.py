"""What Lathe is doing now. Draws itself again while work goes on, and the whole page when something was found."""

from __future__ import annotations

import streamlit as st

from ui.client import Client
from ui.components.markup import clock, escape
from ui.components.messages import errors_shown
from ui.records import Activity

PAGE = 200
SHOWN = 6
_FEED = "feed"


def show(client: Client, investigation_id: str | None) -> None:
    """Fetch what is new since the last look; call it inside a fragment that runs every few seconds."""
    with errors_shown():
        known: tuple[Activity, ...] = st.session_state.get(_FEED, ())
        fresh = _newer(client, after=known[-1].id) if known else client.activity(limit=PAGE)
        st.session_state[_FEED] = (known + fresh)[-PAGE:]
        st.html(render(st.session_state[_FEED], investigation_id))
        if known and any(item.kind != "progress" or item.investigation_id for item in fresh):
            st.rerun()


def _newer(client: Client, *, after: int) -> tuple[Activity, ...]:
    found: tuple[Activity, ...] = ()
    while True:
        answer = client.activity(after=found[-1].id if found else after, limit=PAGE)
        found += answer
        if len(answer) < PAGE:
            return found


def render(items: tuple[Activity, ...], investigation_id: str | None) -> str:
    """Newest first; those of the case shown, and of the whole installation when there is none."""
    chosen = [item for item in items if investigation_id in (None, item.investigation_id)]
    rows = "".join(_row(item) for item in reversed(chosen[-SHOWN:])) or "<li>Nothing yet</li>"
    return f'<section class="lt-side lt-feed"><h4>What Lathe does</h4><ul>{rows}</ul></section>'


def _row(item: Activity) -> str:
    text = escape(item.text)
    return (
        f'<li class="lt-{escape(item.kind)}"><div title="{text}">{text}</div>'
        f"<small>{escape(clock(item.at))}</small></li>"
    )
