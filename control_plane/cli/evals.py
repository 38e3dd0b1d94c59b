"""`lathe evals`: scores with everything that decides whether they may be compared."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from contracts.errors import LogFormatError, UserInputError
from control_plane.cli.session import Json, console, opened, print_json, print_table

if TYPE_CHECKING:
    from context_store.importers.items import FoundScore
    from context_store.records import Ranking, Score
    from context_store.score_lineage import ScoreLineage
    from control_plane.wiring import Lathe

app = typer.Typer(help="Scores, compared only where they may be.", no_args_is_help=True)
Project = Annotated[str | None, typer.Option(help="Only this project.")]


@app.command("list")
def list_scores(
    run: Annotated[str | None, typer.Option(help="Only this run.")] = None,
    benchmark: Annotated[str | None, typer.Option(help="Only this benchmark.")] = None,
    project: Project = None,
    limit: Annotated[int, typer.Option(min=1)] = 100,
    as_json: Json = False,
) -> None:
    """Show scores with what they are of."""
    from context_store.evals import HOW_TO_IMPORT

    with opened() as lathe:
        found = lathe.store.evals.list(run_id=run, benchmark=benchmark, project_id=project, limit=limit)
        if as_json:
            print_json(found)
            return
        rows = [(each.id, each.benchmark, each.metric, _value(each), each.protocol, _of(each)) for each in found]
        columns = ("id", "benchmark", "metric", "value", "protocol", "checkpoint")
        chosen = any(each is not None for each in (run, benchmark, project))
        print_table(columns, rows, empty="No such score." if chosen else f"No scores yet. {HOW_TO_IMPORT}")


@app.command()
def rank(
    benchmark: Annotated[str, typer.Argument(help="Name of the benchmark.")],
    metric: Annotated[str | None, typer.Option(help="Only this metric.")] = None,
    project: Project = None,
    lowest_first: Annotated[bool, typer.Option("--lowest-first", help="Lower is better.")] = False,
    as_json: Json = False,
) -> None:
    """Rank checkpoints on a benchmark; what is not comparable stands apart, what nobody can place is counted."""
    from context_store.evals import HOW_TO_IMPORT

    with opened() as lathe:
        found = lathe.store.evals.rank(benchmark, metric, project_id=project, lowest_first=lowest_first)
        left_out = lathe.store.evals.left_out(benchmark, project)
        if as_json:
            print_json({"rankings": found, "left_out": left_out})
            return
        for group in found:
            _print_group(group)
        for each in left_out:
            told = f"left out: {each.count} scores imported as run {each.run_id}: {each.reason}. {HOW_TO_IMPORT}"
            console().print(told, markup=False, soft_wrap=True)


@app.command()
def compare(
    before: Annotated[int, typer.Argument(metavar="SCORE_A", help="Id of a score.")],
    after: Annotated[int, typer.Argument(metavar="SCORE_B", help="Id of a score.")],
    as_json: Json = False,
) -> None:
    """Say whether two scores may be compared, and by how much B differs from A."""
    with opened() as lathe:
        found = lathe.store.evals.compare(before, after)
        if as_json:
            print_json(found)
            return
        out = console()
        if found.difference is not None:
            error = "" if found.stderr is None else f" +- {found.stderr:.4g}"
            out.print(f"{found.difference:+.6g}{error}", style="bold")
        out.print(found.reason, markup=False)


@app.command("import")
def import_scores(
    path: Annotated[Path, typer.Argument(help="A results file of lm-eval, or a log of inspect.")],
    run: Annotated[str, typer.Option(help="The run whose checkpoint was evaluated.")] = "",
    step: Annotated[int | None, typer.Option(help="Its step.")] = None,
    checkpoint: Annotated[str, typer.Option(help="Instead of a run: the weights, by a path that exists here.")] = "",
    recipe: Annotated[str, typer.Option(help="With it: the commit or file that made them.")] = "",
    project: Annotated[str, typer.Option(help="Project id (default: the run's).")] = "",
    as_json: Json = False,
) -> None:
    """Store the scores of a log that does not say of which training they are."""
    from context_store.importers.score_lineage import new_score

    found = _read(path)
    with opened() as lathe:
        lineage = _lineage(lathe, run, step, checkpoint, recipe)
        project_id = project or (lathe.store.runs.get(run).project_id if run else "")
        if not project_id:
            raise UserInputError("which project do the scores belong to?", remedy="add --project NAME")
        scores = [new_score(each, lineage, project_id, lathe.settings.actor) for each in found]
        logs = [str(path) if lineage.checkpoint == each.checkpoint else "" for each in found]
        stored = [lathe.store.evals.add(score, log=log) for score, log in zip(scores, logs, strict=True)]
        print_json(stored) if as_json else console().print(f"stored {len(stored)} scores of {lineage.checkpoint[:40]}")


def _read(path: Path) -> list[FoundScore]:
    from context_store.importers import discover
    from context_store.importers.items import FoundScore

    found, _ = discover(str(path))
    scores = [item for each in found for item in each.format.read(each.source) if isinstance(item, FoundScore)]
    if not scores:
        raise LogFormatError(f"{path} has no scores", remedy="give a results file of lm-eval or a log of inspect")
    return scores


def _lineage(lathe: Lathe, run: str, step: int | None, checkpoint: str, recipe: str) -> ScoreLineage:
    from context_store.score_lineage import ScoreLineage

    if run and step is not None:
        return lathe.store.evals.lineage_at(run, step)
    if checkpoint and recipe:
        return ScoreLineage(checkpoint=_whole(checkpoint), recipe=_whole(recipe))
    if checkpoint and (known := lathe.store.evals.lineage_of(checkpoint)) is not None:
        return known
    raise UserInputError("which checkpoint was scored?", remedy="say --run RUN --step N, or --checkpoint and --recipe")


def _whole(name: str) -> str:
    """A path here as a whole path; anything else as it is."""
    return str(Path(name).resolve()) if Path(name).exists() else name


def _print_group(group: Ranking) -> None:
    first, out = group.scores[0], console()
    shots = "" if first.shots is None else f", {first.shots} shots"
    title = f"{first.benchmark} {first.metric} ({first.protocol}, {first.harness}{shots})"
    out.print(title, style="bold", markup=False)
    if group.apart:
        out.print(f"  apart: {group.apart}", markup=False)
    unknown = [name for name, value in group.identity.items() if value is None]
    if unknown:
        out.print(f"  comparable as far as recorded; none of them says: {', '.join(unknown)}", markup=False)
    rows = [(n, _value(score), _of(score), score.id) for n, score in enumerate(group.scores, start=1)]
    print_table(("", "value", "checkpoint", "score"), rows, empty="")


def _value(score: Score) -> str:
    return f"{score.value:.6g}" + ("" if score.stderr is None else f" +- {score.stderr:.3g}")


def _of(score: Score) -> str:
    return f"{score.run_id} step {score.step}" if score.run_id else score.checkpoint
