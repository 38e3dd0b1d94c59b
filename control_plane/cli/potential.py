"""`lathe potential`: what a run's checkpoints can become, beside what they score today."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contracts.errors import UserInputError
from control_plane.cli.session import Json, console, notes, opened, print_json

if TYPE_CHECKING:
    from context_store import Store

_INTERRUPTED = 130


def potential(
    run: Annotated[str, typer.Argument(help="Run id.")],
    step: Annotated[list[int] | None, typer.Option(help="A checkpoint's step; may be repeated.")] = None,
    checkpoints: Annotated[int, typer.Option(min=2, help="At most so many, spread over the run.")] = 6,
    seeds: Annotated[int, typer.Option(min=2, max=9, help="Seeds of the SFT of each checkpoint.")] = 3,
    items: Annotated[int, typer.Option(min=5, help="Questions of each task.")] = 40,
    epochs: Annotated[list[str] | None, typer.Option(metavar="STAGE=N", help="SFT budget of a stage.")] = None,
    against: Annotated[str | None, typer.Option(metavar="RUN", help="Compare how fast both runs' last learn.")] = None,
    target: Annotated[float | None, typer.Option(help="Points: the SFT data that reach them.")] = None,
    figure: Annotated[Path | None, typer.Option(help="Write the plots as SVG here.")] = None,
    as_json: Json = False,
) -> None:
    """Tune a run's checkpoints alike and say whether its potential grows, with both curves."""
    from control_plane.cli.investigate import work_on
    from loops.potential.comparison import compared, needed_by, sentences
    from loops.potential.opening import Wish, open_case

    wish = Wish(run_id=run, steps=tuple(step or ()), max_checkpoints=checkpoints, seeds=seeds, num_items=items,
                epochs=_epochs(epochs or []))  # fmt: skip
    with opened() as lathe:
        case_id = open_case(lathe.store, wish, time.time())
        try:
            work_on(lathe, case_id)
        except KeyboardInterrupt:
            notes().print(f"interrupted; nothing is lost, go on with: lathe potential {run}", markup=False)
            raise typer.Exit(_INTERRUPTED) from None
        found = _reading(lathe.store, case_id)
        if figure is not None and found is not None:
            from loops.potential.figures import draw

            draw(found, figure)
        if as_json:
            print_json(found if against is None else compared(lathe.store, run, against, target))
            return
        _print(lathe.store, case_id, figure if found is not None else None)
        told = needed_by(found, target) if found is not None and target is not None else []
        told += sentences(compared(lathe.store, run, against, target)) if against else []
        for sentence in told:
            console().print(sentence, markup=False)


def _epochs(given: list[str]) -> dict[str, int]:
    pairs = [text.rpartition("=") for text in given]
    if wrong := [text for text, (stage, _, count) in zip(given, pairs, strict=True) if not (stage and count.isdigit())]:
        raise UserInputError(f"'{wrong[0]}' says no epochs of a stage", remedy="write STAGE=N")
    return {stage: int(count) for stage, _, count in pairs}


def _reading(store: Store, case_id: str) -> dict[str, Any] | None:
    readings = store.casework.list(case_id, "reading")
    return dict(readings[-1].body) if readings else None


def _print(store: Store, case_id: str, figure: Path | None) -> None:
    out, report = console(), store.knowledge.report(case_id)
    if report:
        from rich.markdown import Markdown

        out.print(Markdown(report))
    else:
        out.print(store.knowledge.investigation(case_id).statement, markup=False)
    out.print(f"case {case_id}; every number's raw outputs: lathe up, page Potential", markup=False)
    if figure is not None:
        out.print(f"plots: {figure}", markup=False)
