"""`lathe proposals`: what waits for a person, and the decision."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from contracts.enums import ProposalState, Role
from contracts.errors import UserInputError
from control_plane.cli.session import Json, console, notes, opened, print_json, print_table, when

if TYPE_CHECKING:
    from context_store.records import Proposal

app = typer.Typer(help="Changes that wait for a person.", no_args_is_help=True)
ProposalId = Annotated[str, typer.Argument(metavar="PROPOSAL", help="Proposal id.")]
Comment = Annotated[str, typer.Option(help="Why; kept in the ledger.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask again.")]


@app.command("list")
def list_proposals(
    state: Annotated[ProposalState | None, typer.Option(help="Only these.")] = None, as_json: Json = False
) -> None:
    """List proposals, oldest first."""
    with opened() as lathe:
        found = lathe.store.proposals.list(state=state)
        if as_json:
            print_json(found)
            return
        rows = [(each.id, each.state, each.kind, each.title) for each in found]
        print_table(("proposal", "state", "kind", "what"), rows, empty="No proposals.")


@app.command()
def show(proposal: ProposalId, as_json: Json = False) -> None:
    """Show exactly what would be done."""
    with opened() as lathe:
        found = lathe.store.proposals.get(proposal)
        print_json(found) if as_json else _print_proposal(found)


@app.command()
def approve(proposal: ProposalId, comment: Comment = "", yes: Yes = False, as_json: Json = False) -> None:
    """Allow exactly what is shown, once."""
    with opened() as lathe:
        found = lathe.store.proposals.get(proposal)
        _confirm(found, "Approve exactly this?", yes=yes, as_json=as_json)
        approval = lathe.store.proposals.approve(
            found.id, lathe.settings.actor, Role.REVIEWER, comment, time.time(), bound_hash=found.bound_hash
        )
        if as_json:
            print_json(approval)
            return
        notes().print(f"approved until {when(approval.expires_at)}; a worker (lathe up) carries it out", markup=False)


@app.command()
def reject(proposal: ProposalId, comment: Comment = "", yes: Yes = False, as_json: Json = False) -> None:
    """Decline it; the case keeps the reason."""
    with opened() as lathe:
        found = lathe.store.proposals.get(proposal)
        _confirm(found, "Reject this?", yes=yes, as_json=as_json)
        rejected = lathe.store.proposals.reject(
            found.id, lathe.settings.actor, Role.REVIEWER, comment, time.time(), bound_hash=found.bound_hash
        )
        print_json(rejected) if as_json else notes().print("rejected")


def _confirm(proposal: Proposal, question: str, *, yes: bool, as_json: bool) -> None:
    if not as_json:
        _print_proposal(proposal)
    if yes:
        return
    if as_json or not sys.stdin.isatty():
        raise UserInputError(
            "nobody can be asked here", remedy="look at it with `lathe proposals show`, then add --yes"
        )
    typer.confirm(question, abort=True, err=True)


def _print_proposal(proposal: Proposal) -> None:
    from rich.syntax import Syntax

    out = console()
    out.print(proposal.title, style="bold", markup=False)
    facts = {
        "proposal": f"{proposal.id} ({proposal.state}, until {when(proposal.expires_at)})",
        "effect": proposal.kind,
        "base": proposal.base_state,
        "risk": proposal.risk,
        "verified by": proposal.verification,
        "bound hash": proposal.bound_hash,
    }
    for name, text in (*facts.items(), *((f"  {key}", value) for key, value in proposal.payload.items())):
        out.print(f"{name}: {text}", markup=False, soft_wrap=True)
    out.print(Syntax(proposal.diff, "diff", background_color="default") if proposal.diff else "no change of code")
