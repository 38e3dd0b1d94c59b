"""System: is Lathe itself in order, what was spent, what it may do, and who may tell it."""

from __future__ import annotations

import streamlit as st

from ui import session
from ui.client import Client
from ui.components import budget_bars
from ui.components.markup import escape, percent, words
from ui.components.messages import errors_shown, show_empty
from ui.components.tables import row, table
from ui.oversight import Check
from ui.records import Principal
from ui.steering import autonomy, halting, people, schedules

_TABS = ("Health", "Budgets", "Detectors", "Policies", "Schedules", "Providers", "People")
_SIGNS = {True: "✔ in order", False: "✕ not in order", None: "· for information"}


def page() -> None:
    client, health = session.client(), session.health()
    principal = health.principal
    head, leave = st.columns([6, 1], vertical_alignment="center")
    head.html(
        f"<h1 class='lt-page'>System</h1><p class='lt-lead'>Lathe {escape(health.version)}. You are signed in as "
        f"{escape(principal.name)}, {escape(principal.role)}.</p>"
    )
    leave.button("Sign out", on_click=session.sign_out, icon=":material/logout:")
    tabs = dict(zip(_TABS, st.tabs(_TABS), strict=True))
    with tabs["Health"], errors_shown():
        _show_health(client, principal)
    with tabs["Budgets"], errors_shown():
        _show_budgets(client)
    with tabs["Detectors"], errors_shown():
        _show_detectors(client)
    with tabs["Policies"], errors_shown():
        found = client.policies()
        halting.show(client, principal, found.halted)
        autonomy.show(client, principal, found)
    with tabs["Schedules"], errors_shown():
        schedules.show(client, principal)
    with tabs["Providers"], errors_shown():
        _show_providers(client)
    with tabs["People"], errors_shown():
        people.show(client, principal)


def _show_health(client: Client, principal: Principal) -> None:
    if principal.role == "viewer":
        show_empty("You cannot see what the machine reports", "A token with the role researcher can.")
        return
    found = client.system()
    worker = Check(
        name="worker",
        ok=found.worker,
        detail="carries effects out and drives cases" if found.worker else "no worker is running",
        remedy="" if found.worker else "start it with `lathe up`",
    )
    checks = sorted((worker, *found.checks), key=lambda check: check.ok is not False)
    num_faulty = sum(check.ok is False for check in checks)
    said = "Everything is in order." if not num_faulty else f"{num_faulty} of {len(checks)} checks need something done."
    st.html(f"<h3>{said}</h3>" + table(("Part", "State", "Found", "What to do"), [_check(check) for check in checks]))


def _check(check: Check) -> str:
    look = {True: "lt-good", False: "lt-bad", None: "lt-muted"}[check.ok]
    state = f'<span class="{look}">{_SIGNS[check.ok]}</span>'
    return row([f"<b>{escape(check.name)}</b>", state, escape(check.detail), escape(check.remedy)])


def _show_budgets(client: Client) -> None:
    found = client.budgets()
    if not found:
        show_empty("No budget was opened yet", "Every case, policy, chat and experiment opens one of its own.")
        return
    st.html("<h3>Budgets: what was used of what was allowed</h3>" + budget_bars.render(found))


def _show_providers(client: Client) -> None:
    """Which text goes to whom, and what is sent to nobody."""
    found = client.providers()
    heads = ("For", "Goes to", "Leaves this machine", "What is sent", "Tokens so far", "US dollars so far")
    rows = [
        row([
            f"<b>{escape(each.purpose)}</b>", escape(each.to), "yes" if each.leaves_machine else "no",
            escape(each.text), f"{each.tokens:,}", f"{each.usd:.2f}",
        ])
        for each in found.flows
    ]  # fmt: skip
    st.html("<h3>Which text goes to which provider of models</h3>" + table(heads, rows))
    st.html(f"<p><b>Never sent:</b> {escape(found.never)}.</p>")


def _show_detectors(client: Client) -> None:
    """How often each was wrong, by what people said."""
    found = client.detectors()
    if not found:
        show_empty(
            "No detector found anything yet", "Each finding counts here, and each that somebody calls a false alarm."
        )
        return
    rows = [
        row([
            f"<b>{escape(words(each.kind))}</b>", str(each.num_findings), str(each.num_false_alarms),
            percent(each.num_false_alarms / each.num_findings),
        ])
        for each in sorted(found, key=lambda each: (-each.num_false_alarms, -each.num_findings))
    ]  # fmt: skip
    heads = ("Kind of finding", "Found", "Called a false alarm", "Share")
    st.html("<h3>What detectors found, and how often people say they were wrong</h3>" + table(heads, rows))
