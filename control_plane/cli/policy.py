"""`lathe policy`: how far each loop may go by itself, what needs two reviewers, and the kill switch.

Whoever can open LATHE_HOME is its admin; over HTTP a token with the role admin is needed.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from contracts.enums import AutonomyLevel, EffectKind, Role
from control_plane.cli.session import Json, console, notes, opened, print_json, when

if TYPE_CHECKING:
    from context_store.records import Policy

app = typer.Typer(help="What loops may do by themselves, and the kill switch.", no_args_is_help=True)
Reason = Annotated[str, typer.Option(help="Why; kept with the policy and in the ledger.")]


@app.command("list")
def list_policies(
    every: Annotated[bool, typer.Option("--all", help="Those that were revoked, too.")] = False, as_json: Json = False
) -> None:
    """List what is in force: who set it, when and why."""
    with opened() as lathe:
        found = lathe.store.policies.list(in_force=not every)
        if as_json:
            print_json(found)
            return
        out = console()
        for each in found:
            out.print(f"{each.id}  {each.loop or 'all loops'}: {says(each)}", style="bold", markup=False)
            out.print(f"   set by {each.set_by}, {when(each.set_at)}: {each.reason}", markup=False)
            if each.revoked_at is not None:
                out.print(f"   revoked by {each.revoked_by}, {when(each.revoked_at)}", markup=False)
        default = f"{AutonomyLevel.PROPOSE}: diagnostics within a case's budget; all else waits for you"
        out.print(f"every other loop: {default}", markup=False)


@app.command("set")
def set_autonomy(
    loop: Annotated[str, typer.Argument(help="Name of the loop, for instance debug.")],
    level: Annotated[AutonomyLevel, typer.Argument(help="How far it may go by itself.")],
    reason: Reason,
    effect: Annotated[list[EffectKind] | None, typer.Option(help="Kind it may do from `act` on; repeat it.")] = None,
    cpu_s: Annotated[float, typer.Option(min=0, help="CPU seconds of all of them together.")] = 0.0,
    max_effects: Annotated[int, typer.Option(min=0, help="How many of them.")] = 0,
    as_json: Json = False,
) -> None:
    """Say how far a loop may go by itself from now on."""
    with opened() as lathe:
        policy = lathe.store.policies.set_autonomy(
            loop,
            level,
            lathe.settings.actor,
            Role.ADMIN,
            reason,
            time.time(),
            effects=effect or (),
            cpu_s=cpu_s,
            num_effects=max_effects,
        )
        _print(policy, as_json=as_json)


@app.command("four-eyes")
def four_eyes(
    effect: Annotated[list[EffectKind], typer.Argument(help="Kinds of effects.")], reason: Reason, as_json: Json = False
) -> None:
    """Ask for two distinct reviewers before effects of these kinds."""
    with opened() as lathe:
        store = lathe.store
        policy = store.policies.require_four_eyes(effect, lathe.settings.actor, Role.ADMIN, reason, time.time())
        _print(policy, as_json=as_json)


@app.command()
def budget(
    project: Annotated[str, typer.Argument(help="Id of a project.")],
    reason: Reason,
    cpu_s: Annotated[float, typer.Option(min=0, help="CPU seconds of its re-runs.")] = 0.0,
    reruns: Annotated[int, typer.Option(min=0, help="How many re-runs.")] = 0,
    wall_s: Annotated[float, typer.Option(min=0, help="Wall seconds of its re-runs, one after the other.")] = 0.0,
    tokens: Annotated[int, typer.Option(min=0, help="Tokens of language models.")] = 0,
    usd: Annotated[float, typer.Option(min=0, help="What language models may cost.")] = 0.0,
    as_json: Json = False,
) -> None:
    """Limit what the cases and experiments of a project may spend together; what is not named is nothing."""
    from context_store.records import Amount

    amount = Amount(cpu_s=cpu_s, reruns=reruns, wall_s=wall_s, tokens=tokens, usd=usd)
    with opened() as lathe:
        budgets, known = lathe.store.budgets, lathe.store.projects.get(project)
        opened_id = budgets.allow_project(known.id, amount, lathe.settings.actor, Role.ADMIN, reason, time.time())
        if as_json:
            print_json(budgets.state(opened_id))
        else:
            notes().print(f"budget {opened_id}: {amount}", markup=False)


@app.command()
def revoke(
    policy: Annotated[int, typer.Argument(metavar="ID", help="Id of a policy in force.")],
    reason: Reason,
    as_json: Json = False,
) -> None:
    """End a policy; what it approved and nobody carried out yet is refused."""
    with opened() as lathe:
        revoked = lathe.store.policies.revoke(policy, lathe.settings.actor, Role.ADMIN, reason, time.time())
        _print(revoked, as_json=as_json)


@app.command()
def halt(reason: Reason, as_json: Json = False) -> None:
    """Kill switch: begin nothing, stop running diagnostics, let loops pause."""
    with opened() as lathe:
        policy = lathe.store.policies.halt(lathe.settings.actor, Role.ADMIN, reason, time.time())
        _print(policy, as_json=as_json)


@app.command()
def resume(reason: Reason = "", as_json: Json = False) -> None:
    """Lift the halt: everything goes on where it stood."""
    with opened() as lathe:
        lathe.store.policies.resume(lathe.settings.actor, Role.ADMIN, reason, time.time())
        print_json({"halted": None}) if as_json else notes().print("everything goes on")


def says(policy: Policy) -> str:
    """What it allows or forbids, in a few words."""
    kinds = ", ".join(policy.effects)
    if policy.level is None:
        return f"two reviewers for {kinds}" if kinds else "nothing is begun"
    if not kinds:
        return str(policy.level)
    return f"{policy.level}: {kinds}; at most {policy.num_effects}, {policy.cpu_s:g} CPU s"


def _print(policy: Policy, *, as_json: bool) -> None:
    if as_json:
        print_json(policy)
    else:
        ended = " (revoked)" if policy.revoked_at is not None else ""
        notes().print(f"policy {policy.id}: {says(policy)}{ended}", markup=False)
