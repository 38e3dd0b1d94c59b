"""Editing a proposal: what its payload can have otherwise. The API makes a new proposal of it, with its own diff."""

from __future__ import annotations

import json
from collections.abc import Mapping

import streamlit as st

from ui import session
from ui.components.messages import show_error
from ui.records import Proposal
from ui.transport import ApiError

_ONE_A_LINE = 'For instance: optim.head.lr = 0.001. Text stands in "quotes".'


def show_form(proposal: Proposal) -> None:
    """Nothing where the payload has no field to edit."""
    payload = proposal.payload
    if not ({"overrides", "max_step", "code"} & set(payload)):
        return
    if not st.toggle("Edit it first", key=f"edit:{proposal.id}", help="Makes a new proposal that takes its place."):
        return
    with st.form(f"revise:{proposal.id}", border=True, enter_to_submit=False):
        given = _fields(proposal)
        why = st.text_area("Why you change it", key=f"why:{proposal.id}", height=70)
        if not st.form_submit_button("Make the edited proposal", icon=":material/edit:"):
            return
    try:
        changes = changed(payload, given)
        made = session.client().edit(proposal.id, changes, comment=why, bound_hash=proposal.bound_hash)
    except ApiError as error:
        show_error(error)
        return
    st.query_params["proposal"] = made.id
    st.rerun()


def _fields(proposal: Proposal) -> dict[str, str]:
    """What the person wrote, by field."""
    payload, given = proposal.payload, dict[str, str]()
    if "overrides" in payload:
        given["overrides"] = st.text_area(
            "Configuration that is set otherwise, one a line", as_lines(payload["overrides"]), help=_ONE_A_LINE
        )
    if "max_step" in payload:
        given["max_step"] = st.text_input("Go on up to step", str(payload["max_step"] or ""))
    if "code" in payload:
        for name, label in _CODE.items():
            given[name] = st.text_area(label, "\n".join(payload["code"].get(name, ())), height=70)
        given["diff"] = st.text_area("Patch on top (a git diff)", payload["code"].get("diff", ""), height=160)
    return given


_CODE = {"revert": "Commits that are taken out, one a line", "pick": "Commits that are put in, one a line"}


def as_lines(overrides: Mapping[str, object]) -> str:
    return "\n".join(f"{key} = {json.dumps(value)}" for key, value in overrides.items())


def changed(payload: Mapping[str, object], given: Mapping[str, str]) -> dict[str, object]:
    """The fields that differ from the payload, as the API takes them. Raises ApiError for a line it cannot read."""
    wanted: dict[str, object] = {}
    if "overrides" in given:
        wanted["overrides"] = dict(_override(line) for line in given["overrides"].splitlines() if line.strip())
    if given.get("max_step", "").strip():
        wanted["max_step"] = _whole_number(given["max_step"])
    code = payload.get("code")
    if isinstance(code, dict):
        lists = {name: given[name].split() for name in _CODE}
        wanted["code"] = {**code, **lists, "diff": given["diff"]}
    return {name: value for name, value in wanted.items() if value != payload.get(name)}


def _override(line: str) -> tuple[str, object]:
    key, sign, value = line.partition("=")
    try:
        if not sign:
            raise ValueError
        return key.strip(), json.loads(value)
    except ValueError as error:
        raise ApiError(
            f"the line “{line.strip()}” cannot be read", remedy=f"write key = value. {_ONE_A_LINE}"
        ) from error


def _whole_number(text: str) -> int:
    if not text.strip().isdecimal():
        raise ApiError(f"“{text}” is no step", remedy="write a whole number of optimizer steps")
    return int(text)
