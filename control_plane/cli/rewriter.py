"""`lathe rewriter`: rules that repair texts, tried and gated as versions of a classifier are, and run over others."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from control_plane.cli.session import Json, notes, print_json

app = typer.Typer(help="Rules that repair texts: tried on yours, gated, audited, run.", no_args_is_help=True)


@app.command()
def improve(
    texts: Annotated[Path, typer.Argument(help='JSON lines with "text", and "wanted": as it should read.')],
    rules: Annotated[Path, typer.Argument(help="Is written: the rules that were taken, with what they are worth.")],
    seed: Annotated[int, typer.Option(help="Of the damage that is planted where nothing is wanted.")] = 0,
    as_json: Json = False,
) -> None:
    """Try each rule on texts; take those that help and break no slice of them."""
    from control_plane.rewriting import developed

    found = developed(texts, seed=seed)
    rules.write_text(found.model_dump_json(indent=1) + "\n", encoding="utf-8")
    if as_json:
        print_json(found.model_dump())
        return
    notes().print(
        f"taken: {', '.join(found.rules)}; {found.share_exact:.1%} of {found.num_texts} texts come out exactly"
    )
    for name, reason in found.not_taken.items():
        notes().print(f"not taken: {name}: {reason}")
    notes().print(f"{found.num_refused} repairs were refused by the fidelity audit: {rules}")


@app.command()
def run(rules: Annotated[Path, typer.Argument(help="Of `lathe rewriter improve`.")]) -> None:
    """Read JSON lines with "text" on standard input; write them repaired. A repair that loses or moves a word is not
    used."""
    from control_plane.rewriting import read_rules, rewritten

    rewriter, counted = read_rules(rules), {"changed": 0, "unchanged": 0, "refused": 0}
    for line in rewritten(rewriter, sys.stdin, counted):
        typer.echo(line)
    notes().print(", ".join(f"{num} {kind}" for kind, num in counted.items()))
