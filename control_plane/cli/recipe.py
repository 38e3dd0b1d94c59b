"""`lathe recipe`: changes of a run's recipe tried as pilots, and a decision for a person."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from control_plane.cli.session import Json, console, notes, opened, parse_overrides, print_json

if TYPE_CHECKING:
    from context_store import Store
    from context_store.records import Investigation

_INTERRUPTED = 130


def recipe(
    run: Annotated[str, typer.Argument(help="Run id.")],
    change: Annotated[
        list[str] | None, typer.Option(help="FIELD=VALUE[;FIELD=VALUE]; may be repeated. Without: the loop suggests.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=2, max=9, help="Paired seeds of each rung.")] = 3,
    steps: Annotated[
        int, typer.Option(min=1, help="Steps of the first rung; each further one has twice as many.")
    ] = 40,
    rungs: Annotated[int, typer.Option(min=1, max=5)] = 2,
    main_steps: Annotated[int, typer.Option(min=0, help="Steps that are decided about; 0: as the run's.")] = 0,
    items: Annotated[int, typer.Option(min=5, help="Questions of each task.")] = 20,
    as_json: Json = False,
) -> None:
    """Try changes of a run's recipe as short pilots; ends with a decision (continue, change, stop) that you approve."""
    from control_plane.cli.investigate import work_on
    from loops.potential.recipe.opening import Wish, open_case

    changes = tuple(parse_overrides(text.split(";")) for text in change or ())
    wish = Wish(run_id=run, changes=changes, seeds=seeds, first_steps=steps, num_rungs=rungs, main_steps=main_steps,
                num_items=items)  # fmt: skip
    with opened() as lathe:
        case_id = open_case(lathe.store, wish, time.time())
        try:
            case = work_on(lathe, case_id)
        except KeyboardInterrupt:
            notes().print("interrupted; nothing is lost, go on with the same command", markup=False)
            raise typer.Exit(_INTERRUPTED) from None
        records = lathe.store.casework.list(case_id, "decision")
        if as_json:
            print_json(dict(records[-1].body) if records else None)
        else:
            _print(lathe.store, case)


def _print(store: Store, case: Investigation) -> None:
    out, report = console(), store.knowledge.report(case.id)
    if report:
        from rich.markdown import Markdown

        out.print(Markdown(report))
    else:
        out.print(case.statement or case.title, markup=False)
    for proposal in store.proposals.list(investigation_id=case.id):
        out.print(f"waits for you: {proposal.title}", markup=False)
        out.print(f"  lathe proposals approve {proposal.id}   or   lathe proposals reject {proposal.id}", markup=False)
