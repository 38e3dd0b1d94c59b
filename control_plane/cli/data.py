"""`lathe data`: where training data came from, what it is mixed of, and what it shares with benchmarks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from contracts.errors import LogFormatError
from control_plane.cli.session import Json, console, notes, opened, print_json, print_table

app = typer.Typer(help="Data pipelines, subsets, documents, mixtures, decontamination.", no_args_is_help=True)
_TOLD_EVERY = 10_000
_SHOWN_LEAKS = 10


@app.command()
def pipelines(as_json: Json = False) -> None:
    """Show the pipelines with their stages and levels."""
    with opened() as lathe:
        found = lathe.store.data.pipelines()
        if as_json:
            print_json(found)
            return
        for each in found:
            console().print(f"{each.id}  {each.title}  (owner: {each.owner})", style="bold", markup=False)
            print_table(("level", "stage", ""), [(s.level, s.key, s.title) for s in each.stages], empty="  no stage")
        if not found:
            console().print("No data pipeline yet. Bring a catalogue: lathe data load FILE.json")


@app.command()
def subsets(
    pipeline: Annotated[str | None, typer.Option(help="Only of this pipeline.")] = None, as_json: Json = False
) -> None:
    """List the subsets with where they came from."""
    with opened() as lathe:
        found = lathe.store.data.subsets(pipeline)
        if as_json:
            print_json(found)
            return
        rows = [(each.id, each.pipeline_id, len(each.trace), each.num_documents, each.source) for each in found]
        print_table(("subset", "pipeline", "stages", "documents", "source"), rows, empty="No subset yet.")


@app.command()
def subset(subset: Annotated[str, typer.Argument(help="Subset id.")], as_json: Json = False) -> None:
    """Show one subset: source, parents, and each stage with its code version and counts."""
    with opened() as lathe:
        found = lathe.store.data.subset(subset)
        if as_json:
            print_json(found)
            return
        console().print(f"{found.id}: {found.pipeline_id}, from {found.source}", style="bold", markup=False)
        if found.parents:
            console().print(f"derived from {', '.join(found.parents)}", markup=False)
        rows = [(each.stage, each.code_version[:12], each.num_in, each.num_out, each.output) for each in found.trace]
        print_table(("stage", "code", "in", "out", "kept at"), rows, empty="")


@app.command()
def document(document: Annotated[str, typer.Argument(help="Document id.")], as_json: Json = False) -> None:
    """Show a document's source, and its text before and after each stage."""
    with opened() as lathe:
        found = lathe.store.data.document(document)
        if as_json:
            print_json(found)
            return
        out = console()
        out.print(f"{found.id}: {found.source} ({found.pipeline_id}/{found.subset_id})", style="bold", markup=False)
        for step in found.steps:
            out.print(f"\n{step.level} {step.stage} ({step.code_version[:12]})", style="bold", markup=False)
            if step.after is None:
                out.print(f"dropped {step.reason}".rstrip(), markup=False)
            else:
                out.print("unchanged" if step.after == step.before else step.after, markup=False)


@app.command()
def mixture(
    run: Annotated[str, typer.Argument(help="Run id.")],
    step: Annotated[int | None, typer.Option(help="In force at this step (default: all changes).")] = None,
    as_json: Json = False,
) -> None:
    """Show the mixture weights of a run by step."""
    with opened() as lathe:
        lathe.store.runs.get(run)
        if step is not None:
            weights = lathe.store.data.mixture(run, step)
            rows: list[tuple[object, ...]] = list(weights.items())
            print_json(weights) if as_json else print_table(("source", "weight"), rows, empty="No mixture.")
            return
        events = lathe.store.data.mixture_events(run)
        if as_json:
            print_json(events)
            return
        rows = [(e.segment, e.step, e.source, e.before, "->", e.after, e.subset_id) for e in events]
        print_table(("segment", "step", "source", "before", "", "after", "subset"), rows, empty="No mixture.")


@app.command()
def load(
    path: Annotated[Path, typer.Argument(help="A JSON file with pipelines, stage_versions, subsets, documents.")],
    as_json: Json = False,
) -> None:
    """Bring a catalogue of pipelines, subsets and documents into the store; what is there already stays."""
    from control_plane.cli.catalog import read_catalog

    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise LogFormatError(f"{path}: {error}", remedy="give a readable JSON file") from error
    catalog = read_catalog(content, str(path))
    with opened() as lathe:
        counts = catalog.put(lathe.store, lathe.settings.actor)
        told = ", ".join(f"{count} {name}" for name, count in counts.items())
        print_json(counts) if as_json else console().print(f"new: {told}")


@app.command()
def benchmarks(as_json: Json = False) -> None:
    """List the registered benchmarks."""
    with opened() as lathe:
        found = lathe.store.benchmarks.list()
        if as_json:
            print_json(found)
            return
        rows = [(each.id, each.num_items, each.owner, each.title) for each in found]
        print_table(("benchmark", "items", "owner", ""), rows, empty="None yet: lathe data register NAME FILE")


@app.command()
def register(
    benchmark: Annotated[str, typer.Argument(help="Its id, with a version if it has one.")],
    path: Annotated[Path, typer.Argument(help="Its items: JSON lines, text or any other corpus.")],
    title: Annotated[str, typer.Option(help="In words.")] = "",
    field: Annotated[str, typer.Option(help="JSON lines: the field with the text (default: all texts).")] = "",
    as_json: Json = False,
) -> None:
    """Register a benchmark, so that corpora can be searched for its items."""
    from context_store.corpora import Corpus
    from trainer import archives

    with opened() as lathe:
        items = Corpus(path=path, archives=archives, text_field=field)
        found = lathe.store.benchmarks.register(benchmark, title or benchmark, items, lathe.settings.actor)
        print_json(found) if as_json else console().print(f"{found.id}: {found.num_items} items", markup=False)


@app.command()
def decontaminate(
    corpus: Annotated[Path, typer.Argument(help="A file or folder: text, JSON lines, Parquet, WARC, saved datasets.")],
    benchmark: Annotated[list[str] | None, typer.Option(help="Repeat it for more (default: all registered).")] = None,
    field: Annotated[str, typer.Option(help="JSON lines: the field with the text (default: all texts).")] = "",
    n: Annotated[int, typer.Option("--ngram", min=2, help="Words in a row that count as a leak.")] = 8,
    as_json: Json = False,
) -> None:
    """Report which documents share 8 words in a row with benchmark items."""
    from context_store.corpora import Corpus
    from trainer import archives

    terminal = notes()

    def tell(num_documents: int) -> None:
        if num_documents % _TOLD_EVERY == 0 and not as_json:
            terminal.print(f"{num_documents} documents read", markup=False)

    with opened() as lathe:
        read = Corpus(path=corpus, archives=archives, text_field=field)
        wanted = benchmark or [each.id for each in lathe.store.benchmarks.list()]
        found = lathe.store.benchmarks.decontaminate(read, wanted, owner=lathe.settings.actor, n=n, tell=tell)
        if as_json:
            print_json({"reports": found})
            return
        for report in found:
            _print_report(report)
        if found:
            _print_gaps(found[0])
        else:
            console().print("No benchmark is registered: lathe data register NAME FILE")


def _print_report(report: Any) -> None:
    out = console()
    out.print(
        f"{report.benchmark_id}: {report.num_leaking_documents} of {report.num_documents} documents share {report.n} "
        f"words in a row with {report.num_leaked_items} of {report.num_items} items",
        style="bold",
        markup=False,
    )
    for leak in report.leaks[:_SHOWN_LEAKS]:
        out.print(f"  {leak.document}  {leak.item}  {leak.share:.0%}  {leak.example}", markup=False)


def _print_gaps(report: Any) -> None:
    """What was not searched, which is the same for all benchmarks."""
    terminal = notes()
    files = [f"{each.file}: {each.reason}" for each in report.unread[:_SHOWN_LEAKS]]
    for count, what, named in ((report.num_unread, "files", files), (report.num_bad, "lines", report.bad)):
        if count:
            first = ", the first" if count > len(named) else ""
            terminal.print(f"{count} {what} could not be read{first}:", style="yellow")
            for fault in named:
                terminal.print(f"  {fault}", markup=False, soft_wrap=True)
