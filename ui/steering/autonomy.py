"""How far each loop may go by itself, and which effects need two reviewers."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from ui.client import Client
from ui.components import chips
from ui.components.markup import escape, when, words
from ui.components.tables import row, table
from ui.oversight import Policies, Policy
from ui.records import Principal
from ui.steering.act import is_admin, rerun_if, sent_for

_LEVELS = ("observe", "propose")  # the higher ones list effects and a budget: `lathe policy`
_HEADS = ("Policy", "For", "Allows", "Why", "Set", "Holds")


def show(client: Client, principal: Principal, found: Policies, *, loop: str = "") -> None:
    """Of one loop, or of all."""
    st.html(
        f"<h3>Autonomy</h3><p>Without a policy a loop may <b>{escape(found.default_level)}</b>. A person has to "
        f"approve every {escape(', '.join(words(kind) for kind in found.major))}.</p>"
    )
    policies = [policy for policy in found.policies if not loop or policy.loop in (loop, "")]
    if policies:
        st.html(table(_HEADS, [_row(policy) for policy in policies]))
    else:
        st.html("<p class='lt-muted'>No policy was set so far; that is the careful state.</p>")
    if is_admin(principal, "policies"):
        _show_forms(client, policies, loop)


def _row(policy: Policy) -> str:
    allows = escape(policy.level or words(policy.kind))
    if policy.effects:
        allows += f": {escape(', '.join(words(kind) for kind in policy.effects))}"
    if policy.num_effects:
        allows += f", at most {policy.num_effects} in {policy.cpu_s:.0f} CPU s"
    holds = chips.tag("holds")
    if policy.revoked_at:
        holds = f"<span class='lt-muted'>until {escape(when(policy.revoked_at))}, {escape(policy.revoked_by)}</span>"
    by = f"{escape(policy.set_by)}<div class='lt-muted'>{escape(when(policy.set_at))}</div>"
    loop = escape(policy.loop or "all loops")
    return row([f"{policy.id} {escape(words(policy.kind))}", loop, allows, escape(policy.reason), by, holds])


def _show_forms(client: Client, found: Sequence[Policy], default_loop: str) -> None:
    left, right = st.columns(2, gap="medium")
    with left, st.form("autonomy", border=True, enter_to_submit=False):
        loop = st.text_input("Loop", default_loop or "debug")
        level = st.selectbox("May", _LEVELS, index=1, help="act and evolve need a list of effects: see `lathe policy`.")
        reason = st.text_input("Why", key="autonomy:reason")
        pressed = st.form_submit_button("Set it")
    if pressed:
        rerun_if(sent_for(reason, lambda why: client.set_autonomy(loop, level, why)))
    holding = [policy.id for policy in found if policy.revoked_at is None and policy.kind != "halt"]
    if not holding:
        return
    with right, st.form("revoke-policy", border=True, enter_to_submit=False):
        number = st.selectbox("Policy", holding)
        reason = st.text_input("Why", key="revoke-policy:reason")
        pressed = st.form_submit_button("Revoke it")
    if pressed:
        rerun_if(sent_for(reason, lambda why: client.revoke_policy(number, why)))
