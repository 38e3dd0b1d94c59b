"""`lathe experiment`: what if a run had other settings? Re-runs beside one that changes nothing."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from contracts.errors import UserInputError
from control_plane.cli.session import Json, console, notes, opened, parse_overrides, print_json, print_table, when

if TYPE_CHECKING:
    from loops.dual import Arm

app = typer.Typer(help="What if a run had other settings? Re-runs, within a budget.", no_args_is_help=True)
ExperimentId = Annotated[str, typer.Argument(metavar="ID", help="Id of an experiment.")]


@app.command()
def start(
    experiment: ExperimentId,
    run: Annotated[str, typer.Option(help="The run it is about.")],
    arm: Annotated[list[str], typer.Option(help="What to try: NAME:KEY=VALUE[,KEY=VALUE]; repeat it.")],
    steps: Annotated[int, typer.Option(min=1, help="Steps of the first re-runs.")],
    cpu_s: Annotated[float, typer.Option(min=0.001, help="CPU seconds of all re-runs together.")],
    title: Annotated[str, typer.Option(help="In a few words.")] = "",
    metric: Annotated[str, typer.Option(help="Series to compare; the smaller the better.")] = "loss",
    from_step: Annotated[int | None, typer.Option(min=0, help="From the newest checkpoint at or before it.")] = None,
    iterations: Annotated[int, typer.Option(min=1, max=100, help="At most.")] = 2,
    reruns: Annotated[int, typer.Option(min=1, help="At most.")] = 40,
    as_json: Json = False,
) -> None:
    """Ask for an experiment; a worker (lathe up) proposes its plan and goes on once you approve that."""
    from context_store.records import Amount
    from control_plane.experiments import NewExperiment
    from control_plane.experiments import start as begin
    from loops.core import WALL_PER_CPU
    from loops.dual import Question

    with opened() as lathe:
        question = Question(
            run_id=run, arms=[_arm(each) for each in arm], num_steps=steps, metric=metric, from_step=from_step,
            max_iterations=iterations,
        )  # fmt: skip
        amount = Amount(cpu_s=cpu_s, wall_s=WALL_PER_CPU * cpu_s, reruns=reruns)
        wish = NewExperiment(id=experiment, title=title or experiment, question=question, amount=amount)
        made = begin(lathe.store, wish, lathe.settings.actor, time.time())
        print_json(made) if as_json else notes().print(f"{made.id} waits at {made.stage}: lathe proposals list")


@app.command("list")
def list_experiments(as_json: Json = False) -> None:
    """List them, newest first."""
    with opened() as lathe:
        found = lathe.store.experiments.list()
        if as_json:
            print_json(found)
            return
        rows = [(each.id, each.stage, each.iteration, each.opened_by, each.title) for each in found]
        print_table(("experiment", "stage", "iteration", "of", "what"), rows, empty="No experiments.")


@app.command()
def show(experiment: ExperimentId, as_json: Json = False) -> None:
    """Show where one stands, what was found, and what it has spent."""
    with opened() as lathe:
        store, found = lathe.store, lathe.store.experiments.get(experiment)
        history, budget = store.experiments.history(found.id), store.budgets.state(found.budget_id)
        if as_json:
            whole = {"experiment": found, "plan": store.experiments.plan(found.id), "budget": budget}
            print_json({**whole, "history": history})
            return
        out = console()
        out.print(f"{found.title}: {found.stage}, iteration {found.iteration}", style="bold", markup=False)
        for step in history:
            out.print(f"{when(step.at)}  {step.before} to {step.after} ({step.actor}): {step.note}", markup=False)
        out.print(f"spent: {budget.used}; left: {budget.left}", markup=False)


@app.command()
def stop(
    experiment: ExperimentId, reason: Annotated[str, typer.Option(help="Why; kept with it.")], as_json: Json = False
) -> None:
    """End one where it stands."""
    from control_plane.experiments import stop as end

    with opened() as lathe:
        ended = end(lathe.store, experiment, lathe.settings.actor, reason)
        print_json(ended) if as_json else notes().print(f"{ended.id} has ended")


def _arm(text: str) -> Arm:
    """NAME:KEY=VALUE,...; values as `lathe train --set` reads them. Raises UserInputError."""
    from loops.dual import Arm

    name, _, settings = text.partition(":")
    if not name or not settings:
        raise UserInputError(f"--arm {text} names nothing to try", remedy="write --arm half-lr:optim.router.lr=0.0015")
    return Arm(name=name, overrides=parse_overrides(settings.split(",")))
