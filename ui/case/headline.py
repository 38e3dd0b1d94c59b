"""Is everything well, what runs, and what needs a person: one sentence and one click to each decision."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from ui import links
from ui.case import decision
from ui.client import Client
from ui.components.markup import escape
from ui.components.messages import errors_shown
from ui.records import Health, Proposal

LIVE_S = 2.0
MAX_RUNNING = 3


def show(client: Client, built_with: Health, *, here: str = "") -> None:
    """Keeps itself up to date. `here`: the case that the page shows."""
    st.fragment(_draw, run_every=LIVE_S)(client, built_with, here)


def _draw(client: Client, built_with: Health, here: str) -> None:
    """The whole page is drawn again when it was built on something else."""
    with errors_shown():
        health = client.health()
        st.html(render(health, waiting(client, health), here))
        if _situation(health) != _situation(built_with):
            st.rerun()


def waiting(client: Client, health: Health) -> list[Proposal]:
    """Open proposals, also those of cases that people want to hear nothing of: a reviewer is not silenced by them."""
    return [*client.proposals(state="open")] if health.needs_you else []


def _situation(health: Health) -> tuple[object, ...]:
    return health.ok, health.needs_you, health.quiet_cases, *(run.id for run in health.running)


def render(health: Health, proposals: Sequence[Proposal], here: str) -> str:
    look, sign = ("well", "✔") if health.ok else ("unwell", "!")
    running = "".join(
        f'<a class="lt-running" href="{escape(links.run(run.id))}" target="_self">{escape(run.name)}'
        f"<small>step {run.last_step}</small></a>"
        for run in health.running[:MAX_RUNNING]
    )
    return (
        f'<header class="lt-health lt-{look}"><i>{sign}</i><div><h1>{escape(health.sentence)}</h1>'
        f"<p>{running or 'No training is running.'}</p></div>{_needs_you(proposals, here)}</header>"
    )


def _needs_you(proposals: Sequence[Proposal], here: str) -> str:
    """One click to each open proposal."""
    if not proposals:
        return '<div class="lt-needs lt-none">Nothing needs you</div>'
    items = "".join(
        f'<a href="{escape(_decision_address(each, here))}" target="_self">{escape(each.title)}</a>'
        for each in proposals
    )
    return f'<div class="lt-needs"><b>Needs you: {len(proposals)}</b>{items}</div>'


def _decision_address(proposal: Proposal, here: str) -> str:
    anchor = f"#{decision.ANCHOR}"
    if proposal.investigation_id is None:
        return links.proposal(proposal.id)
    return anchor if proposal.investigation_id == here else links.investigation(proposal.investigation_id) + anchor
