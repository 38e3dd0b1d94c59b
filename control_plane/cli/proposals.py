"""`lathe proposals`: what waits for a person, and the decision."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contracts.enums import EffectKind, ProposalState, Role
from contracts.errors import UserInputError
from control_plane.cli.session import Json, console, notes, opened, parse_overrides, print_json, print_table, when

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
        elif lathe.store.proposals.get(found.id).state is ProposalState.OPEN:
            notes().print("approved; another reviewer has to approve it too", markup=False)
        else:
            until = when(approval.expires_at)
            notes().print(f"approved until {until}; a worker (lathe up) carries it out", markup=False)


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


@app.command()
def make(
    kind: Annotated[EffectKind, typer.Argument(help="What is to be done.")],
    payload: Annotated[str, typer.Option(help="What it needs, as JSON, or @FILE.")],
    title: Annotated[str, typer.Option(help="In a few words.")],
    risk: Annotated[str, typer.Option(help="What may go wrong.")] = "",
    verification: Annotated[str, typer.Option(help="How one will see that it held.")] = "",
    as_json: Json = False,
) -> None:
    """Propose something yourself: stop a run, patch code, a configuration or a data stage, promote a scaffold."""
    from context_store.records import Principal
    from control_plane.proposing import Wish, propose

    with opened() as lathe:
        wish = Wish(kind=kind, payload=_object(payload), title=title, risk=risk, verification=verification)
        principal = Principal(name=lathe.settings.actor, role=Role.ADMIN)
        made = propose(lathe.store, wish, principal, time.time())
        print_json(made) if as_json else notes().print(f"{made.id} waits: lathe proposals show {made.id}", markup=False)


def _object(text: str) -> dict[str, Any]:
    """Given itself or as @FILE. Raises UserInputError."""
    import json
    from pathlib import Path

    try:
        found = json.loads(Path(text[1:]).read_text() if text.startswith("@") else text)
    except (OSError, ValueError) as error:
        raise UserInputError(f"--payload: {error}", remedy="give a JSON object, or @FILE with one in it") from error
    if not isinstance(found, dict):
        raise UserInputError("--payload is no JSON object", remedy='write --payload \'{"run_id": "..."}\'')
    return found


@app.command("ask-changes")
def ask_changes(
    proposal: ProposalId,
    comment: Annotated[str, typer.Option(help="What should be otherwise; kept in the case.")],
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Send it back with what should be otherwise."""
    with opened() as lathe:
        found = lathe.store.proposals.get(proposal)
        _confirm(found, "Ask for changes?", yes=yes, as_json=as_json)
        asked = lathe.store.proposals.ask_changes(
            found.id, lathe.settings.actor, Role.REVIEWER, comment, time.time(), bound_hash=found.bound_hash
        )
        print_json(asked) if as_json else notes().print("sent back")


@app.command()
def edit(
    proposal: ProposalId,
    comment: Comment = "",
    overrides: Annotated[list[str] | None, typer.Option("--set", help="section.field=value; repeat it.")] = None,
    unset: Annotated[list[str] | None, typer.Option(help="An override to leave out; repeat it.")] = None,
    max_step: Annotated[int | None, typer.Option(min=1, help="Step at which it ends.")] = None,
    base: Annotated[str, typer.Option(help="Commit to start from.")] = "",
    revert: Annotated[list[str] | None, typer.Option(help="Commit to take back; repeat it. Replaces the list.")] = None,
    pick: Annotated[list[str] | None, typer.Option(help="Commit to add; repeat it. Replaces the list.")] = None,
    as_json: Json = False,
) -> None:
    """Make a new proposal out of this one, with its diff computed anew; it waits for approval in its place."""
    from context_store.records import Principal
    from control_plane.revisions import Changes, revise

    with opened() as lathe:
        found = lathe.store.proposals.get(proposal)
        wanted: dict[str, Any] = {} if max_step is None else {"max_step": max_step}
        if overrides or unset:
            kept = {**found.payload.get("overrides", {}), **parse_overrides(overrides or [])}
            wanted["overrides"] = {key: value for key, value in kept.items() if key not in (unset or [])}
        if base or revert is not None or pick is not None:
            given = {"base": base or None, "revert": revert, "pick": pick}
            changed = {name: value for name, value in given.items() if value is not None}
            wanted["code"] = {**found.payload.get("code", {}), **changed}
        person = Principal(name=lathe.settings.actor, role=Role.REVIEWER)
        changes = Changes.model_validate(wanted)
        made = revise(lathe.store, found.id, changes, person, comment, time.time(), found.bound_hash)
        print_json(made) if as_json else _print_proposal(made)


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
