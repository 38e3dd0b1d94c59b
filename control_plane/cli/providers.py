"""`lathe providers`: which text goes to which provider of models."""

from __future__ import annotations

from control_plane.cli.session import Json, console, opened, print_json, print_table


def providers(as_json: Json = False) -> None:
    """Show what is sent to which model, whether it leaves this machine, and what was used so far."""
    from control_plane.chat import mind_of
    from control_plane.providers import NEVER, flows

    with opened() as lathe:
        found = flows(lathe.store, mind_of(lathe))
    if as_json:
        print_json({"flows": found, "never": NEVER})
        return
    rows = [
        (each.purpose, each.to, "yes" if each.leaves_machine else "no", each.tokens, f"{each.usd:.2f}", each.text)
        for each in found
    ]
    print_table(("for", "goes to", "leaves this machine", "tokens", "USD", "text"), rows, empty="")
    console().print(f"Never sent: {NEVER}.", markup=False)
