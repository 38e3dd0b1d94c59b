"""The person's decision: in the terminal, on the page, or given beforehand by `--yes`, whichever comes first."""

from __future__ import annotations

import select
import sys
import time

from context_store import Store
from context_store.records import Proposal
from contracts.enums import ProposalState, Role
from contracts.errors import UserInputError
from control_plane.demo.screen import Screen

_POLL_S = 0.5


def decide(store: Store, screen: Screen, proposal: Proposal, *, actor: str, yes: bool, page: str) -> ProposalState:
    """Show the proposal, and each edit that takes its place, and return how it was decided.

    `page` is the UI's URL, "" without one.

    Raises UserInputError when there is nobody to ask: no `--yes`, no terminal, no page.
    """
    screen.proposal(proposal)
    if yes:
        _approve(store, proposal, actor, "approved beforehand by --yes")
        return ProposalState.APPROVED
    terminal = sys.stdin.isatty()
    if not terminal and not page:
        raise UserInputError("nobody can be asked here", remedy="add --yes, or start it in a terminal or with the page")
    if page:
        screen.say(f"Approve or reject it on the page: {page}", "bold")
    if terminal:
        screen.say("Or here: type yes to approve exactly this, no to reject it, then Enter.", "bold")
    while (current := store.proposals.current(proposal.id)).state == ProposalState.OPEN:
        if current.id != proposal.id:
            screen.proposal(current)
            proposal = current
        answer = _typed() if terminal else _pause()
        if answer in ("y", "yes"):
            _approve(store, proposal, actor, "approved in the terminal")
        elif answer in ("n", "no"):
            comment = "rejected in the terminal"
            store.proposals.reject(
                proposal.id, actor, Role.REVIEWER, comment, time.time(), bound_hash=proposal.bound_hash
            )
    return current.state


def _approve(store: Store, proposal: Proposal, actor: str, comment: str) -> None:
    store.proposals.approve(proposal.id, actor, Role.REVIEWER, comment, time.time(), bound_hash=proposal.bound_hash)


def _typed() -> str:
    """A line from the terminal, or "" when none comes within the poll time."""
    ready, _, _ = select.select([sys.stdin], [], [], _POLL_S)
    return sys.stdin.readline().strip().lower() if ready else ""


def _pause() -> str:
    time.sleep(_POLL_S)
    return ""
