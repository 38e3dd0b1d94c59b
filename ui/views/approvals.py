"""Approvals: what waits for a person, exactly as it would run; and what was decided, by whom, and what came of it."""

from __future__ import annotations

import streamlit as st

from ui import links, session
from ui.case import decision
from ui.client import Client
from ui.components import chips, diff_view
from ui.components.markup import escape, when, words
from ui.components.messages import show_empty
from ui.records import Proposal

_HEAD = "<tr><th>Proposal</th><th>Decision</th><th>By</th><th>Comment</th></tr>"


def page() -> None:
    client = session.client()
    st.html("<h1 class='lt-page'>Approvals</h1>")
    proposals = client.proposals()
    waiting = [proposal for proposal in proposals if proposal.state == "open"]
    if not waiting:
        show_empty("Nothing waits for you", "Loops file their proposals here; `lathe diagnose RUN` starts one.")
    for proposal in waiting:
        _show(client, proposal, is_only=len(waiting) == 1)
    _show_history([proposal for proposal in reversed(proposals) if proposal.state != "open"])


def _show(client: Client, proposal: Proposal, *, is_only: bool) -> None:
    """One proposal with everything that an approval binds."""
    wanted = st.query_params.get("proposal") in (None, proposal.id)
    with st.expander(proposal.title, expanded=is_only or (wanted and "proposal" in st.query_params)):
        st.html(decision.head(proposal) + _case(proposal))
        if proposal.diff:
            st.html(diff_view.render(proposal.diff))
        with st.expander("All arguments, as they are bound"):
            st.json(proposal.payload)
        decision.show_form(proposal, session.principal())


def _case(proposal: Proposal) -> str:
    if proposal.investigation_id is None:
        return ""
    address = escape(links.investigation(proposal.investigation_id))
    return f'<p><a href="{address}" target="_self">The case with its re-runs and verdict</a></p>'


def _show_history(decided: list[Proposal]) -> None:
    if not decided:
        return
    rows = "".join(_row(proposal) for proposal in decided)
    st.html(
        f'<h3>Decided</h3><div class="lt-scroll"><table class="lt-table"><thead>{_HEAD}</thead><tbody>{rows}</tbody>'
        "</table></div>"
    )


def _row(proposal: Proposal) -> str:
    title = escape(proposal.title)
    if proposal.investigation_id is not None:
        title = f'<a href="{escape(links.investigation(proposal.investigation_id))}" target="_self">{title}</a>'
    at = escape(when(proposal.decided_at)) if proposal.decided_at else ""
    return (
        f"<tr><td>{title}<div class='lt-muted'>{escape(words(proposal.kind))}</div></td>"
        f"<td>{chips.state(proposal.state)}</td><td>{escape(proposal.decided_by)}<div class='lt-muted'>{at}</div></td>"
        f"<td>{escape(proposal.comment)}</td></tr>"
    )
