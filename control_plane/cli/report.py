"""`lathe report`: a case as Markdown or HTML with plots."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from control_plane.cli.session import Json, console, notes, opened, print_json


def report(
    case: Annotated[str, typer.Argument(help="The investigation.")],
    html: Annotated[Path | None, typer.Option(help="Write one self-contained page.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write Markdown, with its plots beside it.")] = None,
    as_json: Json = False,
) -> None:
    """Write what is known of a case, with evidence for every claim; without a file, Markdown on standard output."""
    from agents.roles import Reporter
    from control_plane.chat import mind_of

    with opened() as lathe:
        project_id = lathe.store.knowledge.investigation(case).project_id
        door = mind_of(lathe).door(lathe.store, f"agents:report:{case}", project_id)
        prefix = markdown.stem if markdown else "plot"
        found = Reporter(lathe.store).report(case, door, prefix=prefix)
    if html is not None:
        html.write_text(found.html)
    if markdown is not None:
        markdown.write_text(found.markdown)
        for number, plot in enumerate(found.plots, start=1):
            markdown.with_name(f"{prefix}-{number}.svg").write_text(plot.svg)
    if as_json:
        shares = {"removed": found.removed, "claimed": found.claimed, "removed_share": found.removed_share}
        print_json({"brain": found.brain, **shares, "num_plots": len(found.plots), "markdown": found.markdown})
        return
    if html is None and markdown is None:
        console().print(found.markdown, markup=False, soft_wrap=True)
    notes().print(f"{found.removed} of {found.claimed} claims removed; written by {found.brain}", markup=False)
