"""How far each loop may go by itself, and which effects need two reviewers."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from ui.client import Client
from ui.components import chips
from ui.components.markup import escape, when, words
from ui.components.tables import row, table
from ui.oversight import Autonomy, Policies, Policy
from ui.records import Principal
from ui.steering.act import is_admin, rerun_if, sent_for

_LEVELS = {
    "observe": "looks at what is recorded",
    "propose": "runs diagnostics; everything else waits for a person",
    "act": "carries out what you list, within a budget",
    "evolve": "as act, also for its own scaffold",
}
_ACTING = ("act", "evolve")
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
        left, right = st.columns(2, gap="medium")
        with left, st.container(border=True):
            _show_setting(client, found, loop)
        with right:
            _show_revoking(client, policies)


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


def _show_setting(client: Client, found: Policies, default_loop: str) -> None:
    """No form: which fields there are depends on the level."""
    loop = st.text_input("Loop", default_loop or "debug", key="autonomy:loop")
    level = st.selectbox("May", list(_LEVELS), index=1, format_func=lambda each: f"{each}: {_LEVELS[each]}")
    wish = Autonomy(loop=loop, level=level)
    if level in _ACTING:
        wish = wish.model_copy(update=_allowance(found))
    reason = st.text_input("Why", key="autonomy:reason")
    if st.button("Set it", key="autonomy:set"):
        rerun_if(sent_for(reason, lambda why: client.set_autonomy(wish, why)))


def _allowance(found: Policies) -> dict[str, object]:
    """Fields of Autonomy."""
    effects = st.multiselect("Without asking", found.by_policy, format_func=words, key="autonomy:effects")
    left, right = st.columns(2)
    with left:
        number = st.number_input("At most so many", 1, 1_000_000, 1, key="autonomy:number")
    with right:
        minutes = st.number_input("CPU minutes together", 0.0, value=10.0, step=5.0, key="autonomy:minutes")
    return {"effects": tuple(effects), "num_effects": int(number), "cpu_s": 60.0 * minutes}


def _show_revoking(client: Client, policies: Sequence[Policy]) -> None:
    holding = [policy.id for policy in policies if policy.revoked_at is None and policy.kind != "halt"]
    if not holding:
        return
    with st.form("revoke-policy", border=True, enter_to_submit=False):
        number = st.selectbox("Policy", holding)
        reason = st.text_input("Why", key="revoke-policy:reason")
        pressed = st.form_submit_button("Revoke it")
    if pressed:
        rerun_if(sent_for(reason, lambda why: client.revoke_policy(number, why)))
