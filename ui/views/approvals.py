"""Approvals: what waits for a person, exactly as it would run; and what was decided, by whom, and what came of it."""

from __future__ import annotations

import streamlit as st

from ui import links, session
from ui.case import decision, fate
from ui.client import Client
from ui.components import chips, diff_view
from ui.components.markup import escape, when, words
from ui.components.messages import show_empty
from ui.components.tables import table
from ui.records import Effect, Proposal

_INBOX = ("Waits for you", "Risk", "Holds until")
_HISTORY = ("Proposal", "Decision", "By", "Comment", "What happened afterwards")


def page() -> None:
    client = session.client()
    st.html("<h1 class='lt-page'>Approvals</h1>")
    proposals = client.proposals()
    waiting = [proposal for proposal in proposals if proposal.state == "open"]
    effects = client.effects() if len(waiting) < len(proposals) else ()
    chosen = _chosen(proposals, waiting)
    if not waiting:
        show_empty("Nothing waits for you", "Loops file their proposals here; `lathe diagnose RUN` starts one.")
    elif len(waiting) > 1 or chosen not in waiting:
        st.html(table(_INBOX, [_waiting_row(proposal, is_chosen=proposal == chosen) for proposal in waiting]))
    if chosen is not None:
        _show(client, chosen, effects)
    decided = [proposal for proposal in reversed(proposals) if proposal.state != "open"]
    if decided:
        st.html("<h3>Decided</h3>" + table(_HISTORY, [_decided_row(proposal, effects) for proposal in decided]))


def _chosen(proposals: tuple[Proposal, ...], waiting: list[Proposal]) -> Proposal | None:
    """That of the address, else the one that waits longest."""
    wanted = st.query_params.get("proposal")
    found = next((proposal for proposal in proposals if proposal.id == wanted), None)
    return found or next(iter(waiting), None)


def _show(client: Client, proposal: Proposal, effects: tuple[Effect, ...]) -> None:
    """One proposal with everything that an approval binds."""
    standing = client.standing(proposal.id)
    st.html(decision.head(proposal, standing) + _case(proposal))
    if proposal.diff:
        st.html(diff_view.render(proposal.diff))
    with st.expander("All arguments, as they are bound"):
        st.json(proposal.payload)
    if proposal.state == "open":
        decision.show_form(proposal, standing, session.principal(), by_keys=True)
    else:
        st.html(decision.decided(proposal) + f"<p>{fate.of(proposal, effects)}</p>")


def _case(proposal: Proposal) -> str:
    if proposal.investigation_id is None:
        return ""
    address = escape(links.investigation(proposal.investigation_id))
    return f'<p><a href="{address}" target="_self">The case with its re-runs and verdict</a></p>'


def _name(proposal: Proposal) -> str:
    address = escape(links.proposal(proposal.id))
    return (
        f'<td><a href="{address}" target="_self">{escape(proposal.title)}</a>'
        f"<div class='lt-muted'>{escape(words(proposal.kind))}</div></td>"
    )


def _waiting_row(proposal: Proposal, *, is_chosen: bool) -> str:
    look = ' class="lt-chosen" aria-current="true"' if is_chosen else ""
    return (
        f"<tr{look}>{_name(proposal)}<td>{escape(proposal.risk)}</td><td>{escape(when(proposal.expires_at))}</td></tr>"
    )


def _decided_row(proposal: Proposal, effects: tuple[Effect, ...]) -> str:
    at = escape(when(proposal.decided_at)) if proposal.decided_at else ""
    return (
        f"<tr>{_name(proposal)}<td>{chips.state(proposal.state)}</td>"
        f"<td>{escape(proposal.decided_by)}<div class='lt-muted'>{at}</div></td>"
        f"<td>{escape(proposal.comment)}</td><td>{fate.of(proposal, effects)}</td></tr>"
    )
