"""A question from any page; the answer comes in a thread of its own."""

from __future__ import annotations

import streamlit as st

from ui import session
from ui.client import Client
from ui.components.messages import errors_shown

ASKED = "chat:asked"  # the first question of a thread, on its way to the page that answers it
MAX_CHARS = 4000


def show(client: Client) -> None:
    """Nothing for a viewer, who may not ask."""
    if session.principal().role == "viewer":
        return
    with st.form("ask", border=False, clear_on_submit=True):
        field, button = st.columns([6, 1], vertical_alignment="bottom")
        question = field.text_input(
            "Ask", placeholder="Ask: what changed before step 180?", label_visibility="collapsed", max_chars=MAX_CHARS
        )
        pressed = button.form_submit_button("Ask", icon=":material/forum:", width="stretch")
    if pressed and question.strip():
        with errors_shown():
            begin(client, question)


def begin(client: Client, question: str, *, run_id: str = "", investigation_id: str = "") -> None:
    """Open a thread and go to it. Does not return. Raises ApiError."""
    thread = client.open_thread(title=question[:200], run_id=run_id, investigation_id=investigation_id)
    st.session_state[ASKED] = question
    st.switch_page(session.page("chat"), query_params={"thread": thread.id})
