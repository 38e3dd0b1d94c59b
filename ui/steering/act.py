"""Sending what a person decided, with the outcome where they pressed."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from ui.components.messages import show_empty, show_error
from ui.records import Principal
from ui.transport import ApiError

_ADMIN = "admin"


def sent(send: Callable[[], object]) -> bool:
    """True when the API took it; a refusal is shown with its remedy."""
    try:
        send()
    except ApiError as error:
        show_error(error)
        return False
    return True


def sent_for(reason: str, send: Callable[[str], object]) -> bool:
    """As `sent`, of something that is done for a reason; without one nothing is sent."""
    if reason.strip():
        return sent(lambda: send(reason))
    show_error(ApiError("no reason is given", remedy="write why in a few words: it is kept in the ledger"))
    return False


def is_admin(principal: Principal, what: str) -> bool:
    """Otherwise says why there is no form for `what`."""
    if principal.role != _ADMIN:
        show_empty(
            f"You can see this, but not change {what}",
            f"Your token's role is {principal.role}; an admin can. `lathe tokens create NAME --role admin` makes one.",
        )
    return principal.role == _ADMIN


def rerun_if(taken: bool) -> None:
    """Draw the page again with what now holds."""
    if taken:
        st.rerun()
