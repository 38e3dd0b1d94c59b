"""What a worker does at intervals."""

from __future__ import annotations

import streamlit as st

from ui.client import Client
from ui.components.markup import escape, when
from ui.components.messages import show_empty
from ui.components.tables import row, table
from ui.oversight import Schedule
from ui.records import Principal
from ui.steering.act import is_admin, rerun_if, sent_for

_HEADS = ("Schedule", "Of", "Every", "Next", "Last", "Set by", "Why")
_ACTIONS = {"watch": "look for anomalies", "backup": "back the store up", "expire": "delete old points"}
_HOUR_S = 3600.0
_DAY_S = 86400.0


def show(client: Client, principal: Principal) -> None:
    st.html("<h3>Schedules</h3>")
    found = client.schedules()
    if found:
        st.html(table(_HEADS, [_row(schedule) for schedule in found]))
    else:
        show_empty("Nothing is scheduled", "A nightly backup is a good first one: set it here, as an admin.")
    if is_admin(principal, "schedules"):
        _show_forms(client, found)


def _row(schedule: Schedule) -> str:
    last = "not yet"
    if schedule.last_at:
        sign = "✔" if schedule.last_ok else "✕ failed:"
        last = f"{sign} {escape(schedule.last_message)}<div class='lt-muted'>{escape(when(schedule.last_at))}</div>"
    what = f"{schedule.id} {escape(_ACTIONS.get(schedule.action, schedule.action))}"
    cells = [
        what,
        escape(schedule.target or "all projects"),
        _interval(schedule.every_s),
        escape(when(schedule.next_at)),
    ]
    return row([*cells, last, escape(schedule.set_by), escape(schedule.reason)])


def _interval(seconds: float) -> str:
    return f"{seconds / _HOUR_S:g} h" if seconds >= _HOUR_S else f"{seconds / 60:g} min"


def _show_forms(client: Client, found: tuple[Schedule, ...]) -> None:
    left, right = st.columns(2, gap="medium")
    with left, st.form("schedule", border=True, enter_to_submit=False):
        action = st.selectbox("Do", list(_ACTIONS), format_func=lambda key: _ACTIONS[key])
        target = st.text_input("Of which project (empty: all); of a backup, into which folder")
        hours = st.number_input("Every how many hours", min_value=0.25, value=24.0, step=1.0)
        days = st.number_input("Delete points older than (days; only for deleting)", min_value=0.0, value=0.0)
        reason = st.text_input("Why", key="schedule:reason")
        pressed = st.form_submit_button("Schedule it")
    if pressed:
        rerun_if(sent_for(reason, lambda why: client.set_schedule(action, target, hours * _HOUR_S, why, days * _DAY_S)))
    if not found:
        return
    with right, st.form("revoke-schedule", border=True, enter_to_submit=False):
        number = st.selectbox("Schedule", [schedule.id for schedule in found])
        reason = st.text_input("Why", key="revoke-schedule:reason")
        pressed = st.form_submit_button("End it")
    if pressed:
        rerun_if(sent_for(reason, lambda why: client.revoke_schedule(number, why)))
