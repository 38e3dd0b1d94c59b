"""The kill switch: one sentence, one reason, one button."""

from __future__ import annotations

import streamlit as st

from ui.client import Client
from ui.components.markup import escape, when
from ui.records import Halt, Principal
from ui.steering.act import is_admin, rerun_if, sent_for


def show(client: Client, principal: Principal, halted: Halt | None) -> None:
    st.html("<h3>Kill switch</h3>" + _sentence(halted))
    if not is_admin(principal, "it"):
        return
    with st.form("halt", border=True, enter_to_submit=False):
        reason = st.text_input("Why (kept in the ledger)", key="halt:reason")
        if halted:
            pressed = st.form_submit_button("Let everything go on", icon=":material/play_arrow:")
        else:
            pressed = st.form_submit_button("Halt everything", icon=":material/front_hand:", type="primary")
    if pressed:
        rerun_if(sent_for(reason, client.resume if halted else client.halt))


def _sentence(halted: Halt | None) -> str:
    if halted is None:
        return (
            "<p>Nothing is halted. Halting stops running diagnostics, pauses all loops and lets nothing begin, until "
            "an admin lets it go on; trainings that people started go on.</p>"
        )
    return (
        f'<div class="lt-error" role="alert"><strong>Halted by {escape(halted.set_by)}, '
        f"{escape(when(halted.set_at))}</strong><p>{escape(halted.reason)}</p></div>"
    )
