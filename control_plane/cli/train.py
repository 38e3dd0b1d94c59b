"""`lathe train`: run a training here, with progress; Ctrl-C stops it with a checkpoint."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from contracts.errors import BackendFailure, UserInputError
from control_plane.cli.session import Json, notes, opened, parse_overrides, print_json

if TYPE_CHECKING:
    from contracts.backend import Launch, Outcome
    from control_plane.wiring import Lathe

_INTERRUPTED = 130


def train(
    project: Annotated[
        Path,
        typer.Argument(
            metavar="RECIPE",
            help="Folder under git whose recipe.py may be one line, `from trainer.recipes.small import recipe`; "
            "a dry run takes MODULE:FUNCTION too.",
        ),
    ],
    assignments: Annotated[
        list[str] | None, typer.Option("--set", help="Config field, for instance optim.router.lr=0.01.")
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Last step (default: as the recipe says).")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed (default: as the recipe says).")] = None,
    name: Annotated[str, typer.Option(help="Name of the run.")] = "",
    resume: Annotated[
        str | None, typer.Option(metavar="RUN", help="Go on with this run from its newest checkpoint.")
    ] = None,
    last_commit: Annotated[
        bool, typer.Option(help="Train the last commit although there are uncommitted changes.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print stages, tokens, memory and processes; train nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Train RECIPE at its current commit."""
    if dry_run:
        _require_whole_plan(resume, last_commit=last_commit)
        raise typer.Exit(_plan(project, assignments or [], steps, seed, as_json=as_json))
    _require_folder(project)
    with opened() as lathe:
        launch = _prepare(lathe, project, assignments or [], steps, seed, name, resume, last_commit)
        outcome, interrupted = _run(lathe, launch, quiet=as_json)
        _report(launch, outcome, project, as_json=as_json)
        if interrupted:
            raise typer.Exit(_INTERRUPTED)
        if outcome.reason in ("died", "failed"):
            kind = BackendFailure if outcome.reason == "died" else UserInputError
            raise kind(outcome.message, remedy=outcome.remedy)


def _require_whole_plan(resume: str | None, *, last_commit: bool) -> None:
    if resume or last_commit:
        raise UserInputError(
            "a dry run plans the folder as it is now, from the beginning",
            remedy="leave out --resume and --last-commit",
        )


def _require_folder(project: Path) -> None:
    module, _, function = str(project).rpartition("/")[2].partition(":")
    if function and not project.exists():
        name = "recipe" if function == "recipe" else f"{function} as recipe"
        raise UserInputError(
            f"{project} is no folder under git, so a run could not say which code it was",
            remedy=f"commit a recipe.py with the line: from {module} import {name}",
        )


def _plan(recipe: Path, assignments: list[str], steps: int | None, seed: int | None, *, as_json: bool) -> int:
    """The recipe's code runs in a process of its own, in its folder as it is now."""
    parse_overrides(assignments)
    from control_plane.projects import DEFAULT_ENTRY

    folder, entry = (recipe, DEFAULT_ENTRY) if recipe.is_dir() else (Path.cwd(), str(recipe))
    if ":" not in entry:
        raise UserInputError(f"{recipe} is no folder", remedy="give a folder with a recipe.py, or MODULE:FUNCTION")
    seeded = [f"seed={seed}"] if seed is not None else []
    until = ["--steps", str(steps)] if steps is not None else []
    command = [sys.executable, "-m", "trainer.plan", *until, "--", str(folder.resolve()), entry, *assignments, *seeded]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if as_json and done.returncode == 0:
        print_json({"plan": done.stdout.splitlines()})
    else:
        sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    return done.returncode


def _prepare(
    lathe: Lathe,
    project: Path,
    assignments: list[str],
    steps: int | None,
    seed: int | None,
    name: str,
    resume: str | None,
    last_commit: bool,
) -> Launch:
    from control_plane.git import head_commit
    from control_plane.projects import register_project
    from control_plane.trainings import TrainingRequest, new_run_id

    overrides = parse_overrides(assignments)
    known = register_project(lathe.store, project, owner=lathe.settings.actor)
    commit = head_commit(Path(known.path), allow_uncommitted=last_commit)
    if resume is None:
        request = TrainingRequest(
            run_id=new_run_id(name or project.resolve().name, time.time()),
            project=known,
            commit=commit,
            name=name,
            overrides=overrides,
            seed=seed,
            max_step=steps,
        )
        return lathe.trainings.begin(request)
    if seed is not None:
        raise UserInputError("a run keeps its seed when it goes on", remedy="leave out --seed, or begin another run")
    return lathe.trainings.go_on(resume, commit=commit, overrides=overrides, max_step=steps)


def _run(lathe: Lathe, launch: Launch, *, quiet: bool) -> tuple[Outcome, bool]:
    """The outcome, and whether Ctrl-C ended it. A second Ctrl-C does not wait for the checkpoint."""
    from control_plane.cli.progress import TrainingProgress
    from control_plane.trainings import follow

    with TrainingProgress(lathe.store, launch, quiet=quiet) as progress:
        try:
            return follow(lathe.backend, lathe.shipper, launch, on_poll=progress.update), False
        except KeyboardInterrupt:
            progress.say("stopping with a checkpoint (Ctrl-C again: without)")
            lathe.backend.cancel(launch.run_id, launch.segment)
            return follow(lathe.backend, lathe.shipper, launch, on_poll=progress.update, submit=False), True


def _report(launch: Launch, outcome: Outcome, project: Path, *, as_json: bool) -> None:
    go_on = f"lathe train {project} --resume {launch.run_id}"
    if as_json:
        result: dict[str, Any] = {
            "run": launch.run_id,
            "segment": launch.segment,
            "reason": outcome.reason,
            "last_step": outcome.last_step,
            "message": outcome.message,
            "code_version": launch.code_version,
            "resume": "" if outcome.reason == "completed" else go_on,
        }
        print_json(result)
        return
    notes().print(f"run {launch.run_id}: {outcome.reason} at step {outcome.last_step}", markup=False)
    if outcome.reason == "completed":
        notes().print(f"  look at it: lathe detect {launch.run_id}", markup=False)
    elif outcome.last_step:
        notes().print(f"  go on with: {go_on}", markup=False, soft_wrap=True)
