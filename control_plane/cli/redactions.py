"""`lathe redactions`: which secrets were taken out of what is stored."""

from __future__ import annotations

from control_plane.cli.session import Json, opened, print_json, print_table


def redactions(as_json: Json = False) -> None:
    """Count what was redacted, by place, owner and kind. The secrets themselves were never stored."""
    with opened() as lathe:
        found = lathe.store.redactions.list()
    if as_json:
        print_json(found)
        return
    rows = [(each.where, each.owner, each.kind or "unknown", each.count) for each in found]
    print_table(("where", "of", "kind", "number"), rows, empty="Nothing was redacted.")
