"""`lathe why`, `completeness`, `owner`: what a statement rests on, what is missing, who answers for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from control_plane.cli.session import Json, console, opened, print_json, print_table

if TYPE_CHECKING:
    from context_store.why import Link, Why

_MAX_TITLE = 100


def why(
    kind: Annotated[str, typer.Argument(help="verdict, score, proposal, anomaly, run, ... or a whole KIND:ID.")],
    id: Annotated[str, typer.Argument(help="Its id.")] = "",  # noqa: A002 - what users see
    max_nodes: Annotated[int, typer.Option(min=1, help="At most so many objects, the nearest ones.")] = 500,
    as_json: Json = False,
) -> None:
    """Why do we believe this: everything it rests on, down to raw points, lines, fields and outputs."""
    from urllib.parse import unquote

    if not id:
        kind, _, id = kind.partition(":")  # noqa: A001
        id = unquote(id.partition("#")[0])  # noqa: A001
    with opened() as lathe:
        found = lathe.store.why.of(kind, id, max_nodes)
        if as_json:
            raw = [{"ref": node.ref, "slice": part} for node, part in found.raw_slices]
            print_json({"why": found, "raw_slices": raw})
            return
        _print_tree(found)


def completeness(
    project: Annotated[str | None, typer.Option(help="Only this project.")] = None,
    missing: Annotated[bool, typer.Option("--missing", help="Only what has no record.")] = False,
    as_json: Json = False,
) -> None:
    """List the kinds of evidence with their number of records, and how to fill those that have none."""
    with opened() as lathe:
        report = lathe.store.completeness.report(project)
        if as_json:
            print_json({"kinds": report.kinds, "unowned": report.unowned})
            return
        chosen = report.missing if missing else report.kinds
        rows = [(each.kind, each.count, each.what, "" if each.count else each.remedy) for each in chosen]
        print_table(("kind", "records", "", "to fill it"), rows, empty="Nothing is missing.")
        for name in report.unowned:
            console().print(f"nobody answers for project {name}: lathe owner {name} NAME", markup=False)


def owner(
    project: Annotated[str, typer.Argument(help="Project id.")],
    name: Annotated[str, typer.Argument(help="The person or team that answers for it and all that belongs to it.")],
    as_json: Json = False,
) -> None:
    """Say who answers for a project."""
    with opened() as lathe:
        found = lathe.store.projects.set_owner(project, name)
        print_json(found) if as_json else console().print(f"{found.id}: {found.owner}", markup=False)


def _print_tree(found: Why) -> None:
    """Depth first; what was shown already is only named again."""
    links: dict[int, list[Link]] = {}
    for link in found.links:
        links.setdefault(link.source, []).append(link)
    shown: set[int] = set()
    out = console()

    def show(place: int, depth: int, role: str, part: str) -> None:
        node = found.nodes[place]
        again = place in shown
        shown.add(place)
        title = "not in the store" if node.title is None else node.title.replace("\n", " ")[:_MAX_TITLE]
        told = "(above)" if again else title
        where = f"#{part}" if part else ""
        out.print(f"{'  ' * depth}{role + ' ' if role else ''}{node.ref}{where}  {told}", markup=False, soft_wrap=True)
        for link in () if again else links.get(place, ()):
            show(link.target, depth + 1, link.role, link.slice)

    show(0, 0, "", "")
    num_raw = len(found.raw_slices)
    out.print(f"\n{len(found.nodes)} objects, {num_raw} raw slices, {len(found.missing)} not in the store")
    if found.truncated:
        out.print(f"there is more: --max-nodes {2 * len(found.nodes)}")
