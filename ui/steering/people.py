"""Access tokens: who may do what. Secrets are shown once, when they are made."""

from __future__ import annotations

import streamlit as st

from ui.client import Client
from ui.components import chips
from ui.components.markup import escape, when
from ui.components.messages import show_error
from ui.components.tables import row, table
from ui.oversight import Token
from ui.records import Principal
from ui.steering.act import is_admin, rerun_if, sent
from ui.transport import ApiError

_HEADS = ("Token", "Of", "Role", "Made", "Holds")
_DAY_S = 86400.0
_ROLES = {
    "viewer": "viewer: reads",
    "researcher": "researcher: also asks, adds, proposes",
    "reviewer": "reviewer: also approves and rejects",
    "admin": "admin: also sets policies, schedules, tokens",
}


def show(client: Client, principal: Principal) -> None:
    st.html("<h3>People and tokens</h3>")
    if not is_admin(principal, "tokens"):
        return
    found = client.tokens()
    st.html(table(_HEADS, [_row(token) for token in found]))
    left, right = st.columns(2, gap="medium")
    with left:
        _show_making(client)
    holding = {token.id: token for token in found if token.revoked_at is None}
    with right, st.form("revoke-token", border=True, enter_to_submit=False):
        number = st.selectbox("Token", list(holding), format_func=lambda key: f"{key} {holding[key].name}")
        pressed = st.form_submit_button("Revoke it")
    if pressed and number is not None:
        rerun_if(sent(lambda: client.revoke_token(number)))


def _row(token: Token) -> str:
    holds = "until it is revoked" if token.expires_at is None else f"until {escape(when(token.expires_at))}"
    if token.revoked_at:
        holds = f"<span class='lt-muted'>revoked {escape(when(token.revoked_at))}</span>"
    made = f"{escape(when(token.created_at))}<div class='lt-muted'>by {escape(token.created_by)}</div>"
    return row([str(token.id), escape(token.name), chips.tag(token.role), made, holds])


def _show_making(client: Client) -> None:
    """The secret stays on the page until the next click."""
    with st.form("make-token", border=True, enter_to_submit=False):
        name = st.text_input("For whom")
        role = st.selectbox("Role", list(_ROLES), format_func=lambda key: _ROLES[key])
        days = st.number_input("Holds for how many days (0: until it is revoked)", min_value=0, value=90)
        pressed = st.form_submit_button("Make a token")
    if not pressed:
        return
    try:
        made = client.make_token(name, role, days * _DAY_S or None)
    except ApiError as error:
        show_error(error)
    else:
        st.html(f"<p>The secret of {escape(made.token.name)}'s token. It is shown only now:</p>")
        st.code(made.secret, language=None)
