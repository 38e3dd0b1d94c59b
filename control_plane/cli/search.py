"""`lathe search`: everything textual that Lathe remembers, by words and by meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from control_plane.cli.session import Json, console, notes, opened, print_json, when

if TYPE_CHECKING:
    from context_store import Store
    from context_store.records import Hit, TextKind

_MAX_BODY = 240


def search(
    text: Annotated[str, typer.Argument(help="What you look for, in words or identifiers.")],
    kind: Annotated[
        list[str] | None, typer.Option(help="hunk, change, note, anomaly, investigation, negative; repeat it for more.")
    ] = None,
    project: Annotated[str | None, typer.Option(help="Project id.")] = None,
    run: Annotated[str | None, typer.Option(help="Run id.")] = None,
    layer: Annotated[int | None, typer.Option(min=0, help="Speaks of this layer.")] = None,
    field: Annotated[str | None, typer.Option(help="Configuration key, series or symbol.")] = None,
    from_step: Annotated[int | None, typer.Option(help="At this step or later.")] = None,
    to_step: Annotated[int | None, typer.Option(help="At this step or earlier.")] = None,
    since: Annotated[float | None, typer.Option(help="Unix seconds.")] = None,
    until: Annotated[float | None, typer.Option(help="Unix seconds.")] = None,
    outcome: Annotated[str | None, typer.Option(help="A verdict, a reason class, or a kind of anomaly.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=60)] = 10,
    as_json: Json = False,
) -> None:
    """Find hunks, changes, notes, anomalies, cases and negative results."""
    from context_store.records import SearchFilter

    chosen = SearchFilter(
        kinds=_kinds(kind or []), project_id=project, run_id=run, layer=layer, field=field, lo=from_step, hi=to_step,
        since=since, until=until, outcome=outcome,
    )  # fmt: skip
    with opened() as lathe:
        _embed(lathe.store, quiet=as_json)
        hits = lathe.store.search.find(text, chosen, limit)
        if as_json:
            print_json([{**_plain(hit), "reference": str(hit.reference)} for hit in hits])
            return
        for hit in hits:
            _show(hit)
        if not hits:
            console().print("Nothing like this is stored.")


def _kinds(names: list[str]) -> tuple[TextKind, ...]:
    """Raises UserInputError."""
    from context_store.records import TextKind
    from contracts.errors import UserInputError

    unknown = [name for name in names if name not in list(TextKind)]
    if unknown:
        raise UserInputError(f"--kind {unknown[0]}: no such kind", remedy="choose of " + ", ".join(TextKind))
    return tuple(TextKind(name) for name in names)


def _embed(store: Store, *, quiet: bool) -> None:
    """Give new texts their vectors, with progress where that takes long."""
    coverage = store.search.coverage()
    missing = coverage.num_texts - coverage.num_embedded
    terminal = notes()
    if not missing:
        return
    if quiet or not terminal.is_terminal:
        store.search.embed()
        return
    with terminal.status(f"reading {missing} new texts ...") as status:
        store.search.embed(tell=lambda done: status.update(f"reading new texts: {done} of {missing}"))


def _show(hit: Hit) -> None:
    out = console()
    steps = (
        "" if hit.steps is None else f"  step {hit.steps[0]}" + (f"-{hit.steps[1]}" if len(set(hit.steps)) > 1 else "")
    )
    where = f"  {hit.run_id}" if hit.run_id else f"  {hit.project_id}" if hit.project_id else ""
    at = f"  {when(hit.at)}" if hit.at else ""
    out.print(f"{hit.reference}{where}{steps}{at}", style="bold", markup=False)
    out.print(f"    {hit.title}" + (f"  [{hit.outcome}]" if hit.outcome else ""), markup=False)
    body = " ".join(hit.body.split())
    if body:
        out.print(f"    {body[:_MAX_BODY]}{'…' if len(body) > _MAX_BODY else ''}", markup=False, style="dim")


def _plain(hit: Hit) -> dict[str, object]:
    import dataclasses

    return {field.name: getattr(hit, field.name) for field in dataclasses.fields(hit)}
