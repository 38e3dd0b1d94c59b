"""The proposal: exactly what would be done, its risk and check, and the person's decision."""

from __future__ import annotations

from typing import Literal

import streamlit as st

from ui import session
from ui.case import order, revision
from ui.client import Client
from ui.components import chips, diff_view
from ui.components.markup import escape, when, words
from ui.components.messages import show_error
from ui.records import Case, Principal, Proposal, Standing
from ui.transport import ApiError

ANCHOR = "decision"


def show(client: Client, case: Case) -> None:
    for proposal in case.proposals:
        standing = client.standing(proposal.id)
        st.html(head(proposal, standing))
        if proposal.diff:
            st.html(diff_view.render(proposal.diff))
            with st.expander("The same diff as plain text"):
                st.code(proposal.diff, language="diff")
        if proposal.state == "open":
            show_form(proposal, standing, session.principal())
        else:
            st.html(decided(proposal))


def head(proposal: Proposal, standing: Standing) -> str:
    rows = (
        ("Starts from", proposal.base_state),
        ("Risk", proposal.risk),
        ("Checked how", proposal.verification),
    )
    facts = "".join(f"<dt>{label}</dt><dd>{escape(text)}</dd>" for label, text in rows if text)
    return (
        f'<section class="lt-proposal" id="{ANCHOR}"><small>Proposed change</small><h2>{escape(proposal.title)}</h2>'
        f"<dl><dt>What is done</dt><dd>{order.render(proposal)}</dd>{facts}"
        f"<dt>Who may approve</dt><dd>{escape(who_may_approve(standing))}</dd>"
        f"<dt>Rests on</dt><dd>{chips.evidence(proposal.evidence)}</dd></dl></section>"
    )


def who_may_approve(standing: Standing) -> str:
    needed = standing.reviewers_needed
    count = "1 reviewer or admin needed" if needed == 1 else f"{needed} different reviewers or admins needed"
    signed = f"{len(standing.signed)} of {needed}: {', '.join(standing.signed)}" if standing.signed else "nobody"
    return f"{count}; so far {signed}"


def still_lacking(standing: Standing) -> str:
    """What an open proposal with some of its approvals waits for; "" before the first one."""
    if not standing.signed or not standing.lacking:
        return ""
    names, number = ", ".join(standing.signed), standing.lacking
    more = "one more reviewer is needed" if number == 1 else f"{number} more reviewers are needed"
    return (
        f'<div class="lt-decided lt-approved"><b>Approved by {escape(names)}; {more}</b>, nothing is done before.</div>'
    )


def show_form(proposal: Proposal, standing: Standing, principal: Principal, *, by_keys: bool = False) -> None:
    """What a reviewer can do with it; for others the reason why the buttons are absent.

    `by_keys`: also by Alt and a letter; for a page on which there is one such form.
    """
    if said := still_lacking(standing):
        st.html(said)
    if not principal.may_decide:
        st.html(
            f'<div class="lt-empty"><strong>You can read this, but not decide it</strong><p>Your token belongs to '
            f"{escape(principal.name)}, whose role is {escape(principal.role)}; approving and rejecting need "
            "a reviewer.</p></div>"
        )
        return
    # Without `enter_to_submit=False`, Ctrl+Enter in the comment would press the first button: Approve.
    with st.form(f"decide:{proposal.id}", border=True, enter_to_submit=False):
        comment_key = f"comment:{proposal.id}"
        st.text_area("Comment (kept with the decision)", key=comment_key, height=80, placeholder="Why?")
        *places, note = st.columns([1.5, 1.4, 2.1, 2.8], vertical_alignment="center")
        for place, (verb, label, icon, kind, keys) in zip(places, _BUTTONS, strict=True):
            place.form_submit_button(
                label, type=kind, icon=icon, on_click=_decide, args=(verb, proposal, comment_key), width="stretch",
                shortcut=keys if by_keys else None, disabled=verb == "approve" and principal.name in standing.signed,
            )  # fmt: skip
        note.html(
            f'<span class="lt-muted">Holds for exactly this change (<code>{escape(proposal.bound_hash[:12])}</code>), '
            f"once, until {escape(when(proposal.expires_at))}. You sign as {escape(principal.name)}.</span>"
        )
    if error := st.session_state.pop(_error_key(proposal), None):
        show_error(error)
    revision.show_form(proposal)


_BUTTONS: tuple[tuple[str, str, str, Literal["primary", "secondary"], str], ...] = (
    ("approve", "Approve", ":material/check:", "primary", "Alt+A"),
    ("reject", "Reject", ":material/close:", "secondary", "Alt+X"),
    ("ask_changes", "Ask for changes", ":material/reply:", "secondary", "Alt+S"),
)


def _decide(verb: str, proposal: Proposal, comment_key: str) -> None:
    """Runs with the proposal as it was on the screen, so that the hash sent is the hash that was shown."""
    client = session.client()
    send = {"approve": client.approve, "reject": client.reject, "ask_changes": client.ask_changes}[verb]
    try:
        send(proposal.id, comment=st.session_state[comment_key], bound_hash=proposal.bound_hash)
    except ApiError as error:
        st.session_state[_error_key(proposal)] = error


def _error_key(proposal: Proposal) -> str:
    return f"decision-error:{proposal.id}"


def decided(proposal: Proposal) -> str:
    who = f" by {escape(proposal.decided_by)}" if proposal.decided_by else ""
    at = f", {escape(when(proposal.decided_at))}" if proposal.decided_at else ""
    comment = f"<p>“{escape(proposal.comment)}”</p>" if proposal.comment else ""
    state = f"<b>{escape(words(proposal.state))}</b>"
    return f'<div class="lt-decided lt-{escape(proposal.state)}">{state}{who}{at}{comment}</div>'
