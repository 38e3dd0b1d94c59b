"""`lathe classifier`: from a stated need to a classifier that somebody approved, and its use afterwards."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from control_plane.cli.session import Json, console, notes, opened, print_json, print_table

app = typer.Typer(help="Text classifiers: stated, labelled, measured, gated, deployed, watched.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="NAME", help="Of the classifier, or the id of one of its cases.")]


@app.command()
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="a-z, 0-9, - and _.")],
    need: Annotated[str, typer.Option(help="What is to be told apart, in a sentence.")],
    documents: Annotated[Path, typer.Option(help='JSON lines with "text"; other fields are slices.')],
    classes: Annotated[str, typer.Option(help="WANTED,OTHER")],
    labels: Annotated[Path | None, typer.Option(help='JSON lines with "id" and "label".')] = None,
    labellers: Annotated[str, typer.Option(help="given, person, model; the reference first.")] = "given",
    cost: Annotated[str, typer.Option(help="Of a false alarm and of a miss.")] = "1,1",
    evaluation: Annotated[int, typer.Option(min=10, help="Texts that judge every version.")] = 300,
    first: Annotated[int | None, typer.Option(min=10, help="Labels before the first version.")] = None,
    budget: Annotated[int | None, typer.Option(min=10, help="Labels for training in all.")] = None,
    per_round: Annotated[int, typer.Option(min=10, help="Labels that are asked for at once.")] = 100,
    versions: Annotated[int, typer.Option(min=1, help="At most so many are made.")] = 10,
    option: Annotated[str, typer.Option(help="Deploy the prompt, the model, or the best of both.")] = "model",
    optimiser: Annotated[str, typer.Option(help="Of the labelling prompt: mistakes, or gepa.")] = "mistakes",
    seed: Annotated[int, typer.Option(help="Of everything that is drawn.")] = 0,
    as_json: Json = False,
) -> None:
    """State a need: a worker (lathe up) takes it up, asks for labels, and proposes a deployment."""
    from control_plane.classifiers import open_need
    from loops.quantify.deployment import current
    from loops.quantify.documents import read_documents
    from loops.quantify.need import Need, Optimiser, Option, labellers_of, pair_of, word_of

    texts = read_documents(documents, labels)
    sources, (alarm, miss) = labellers_of(labellers.split(",")), pair_of("cost", cost)
    most = budget or (max(10, len(texts.labels)) if sources == ("given",) else 1000)
    positive, _, negative = classes.partition(",")
    wish = Need(
        name=name, need=need, positive=positive.strip(), negative=negative.strip(), labellers=sources,
        cost_false_positive=alarm, cost_false_negative=miss, evaluation_size=evaluation, label_budget=most,
        first_labels=first or min(200, most), per_round=per_round, max_versions=versions,
        option=word_of(Option, option), optimiser=word_of(Optimiser, optimiser), seed=seed,
    )  # fmt: skip
    with opened() as lathe:
        deployed = current(lathe.settings.classifiers_folder, name)
        case = open_need(lathe.store, lathe.settings.cases_folder, wish, texts, time.time(), deployed)
        print_json(case) if as_json else notes().print(f"{case.id} is open; a worker takes it up: lathe up")


@app.command("list")
def list_classifiers(as_json: Json = False) -> None:
    """List them, newest first."""
    from control_plane.classifiers import summary
    from loops.quantify.casebook import LOOP

    with opened() as lathe:
        cases = [each.case_id for each in lathe.store.casework.of_loop(LOOP, "need")]
        found = [summary(lathe.store, case_id) for case_id in reversed(cases)]
        if as_json:
            print_json(found)
            return
        rows = [
            (each["case_id"], each["state"], each["num_versions"], _f1(each["f1"]), each["waiting"], each["need"])
            for each in found
        ]
        heads = ("case", "state", "versions", "F1 (95 %)", "labels wanted", "need")
        print_table(heads, rows, empty="No classifiers: lathe classifier new states a need.")


@app.command()
def show(name: Name, as_json: Json = False) -> None:
    """Show the card of the version that stands, with everything that was tried."""
    from control_plane.classifiers import ladder, newest, summary
    from loops.quantify.card import card
    from loops.quantify.casebook import CaseBook

    with opened() as lathe:
        case_id = newest(lathe.store, name)
        book = CaseBook(lathe.store, case_id, time.time())
        if as_json:
            print_json({**summary(lathe.store, case_id), "ladder": ladder(book), "card": card(book)})
            return
        console().print(card(book), markup=False)


@app.command()
def label(
    name: Name,
    file: Annotated[Path, typer.Argument(help='JSON lines with "id" and "label".')],
    as_json: Json = False,
) -> None:
    """Give labels of a person from a file, in your name, for what the case asked about."""
    from control_plane.classifiers import newest, put_labels
    from loops.quantify.documents import read_labels

    with opened() as lathe:
        case_id = newest(lathe.store, name)
        labels = [(each.id, each.label) for each in read_labels(file)]
        done = put_labels(lathe.store, case_id, labels, person=lathe.settings.actor, at=time.time())
        print_json(done) if as_json else notes().print(f"{done['waiting']} of {done['asked']} texts still wait")


@app.command()
def prompt(
    name: Name, file: Annotated[Path, typer.Argument(help="Is written; the bytes are those that were sent.")]
) -> None:
    """Export the labelling prompt that stands, byte for byte."""
    from contracts.errors import NotFound
    from control_plane.classifiers import newest
    from loops.quantify.casebook import CaseBook

    with opened() as lathe:
        case_id = newest(lathe.store, name)
        found = CaseBook(lathe.store, case_id, time.time()).standing_prompt(lathe.settings.cases_folder / case_id)
        if found is None:
            raise NotFound(f"{case_id} has no labelling prompt", remedy="let a model label: --labellers given,model")
        found.export(file)
        notes().print(f"{file}: sha256 {found.sha256}")


@app.command()
def score(name: Name) -> None:
    """Read JSON lines with "text" on standard input; write them with what the deployed classifier or prompt says."""
    from control_plane.deployed import open_judge, score_lines

    with opened() as lathe:
        for line in score_lines(open_judge(lathe, name), sys.stdin):
            typer.echo(line)


@app.command("filter")
def keep(
    name: Name,
    drop: Annotated[bool, typer.Option("--drop", help="Keep all but what the classifier looks for.")] = False,
) -> None:
    """Read JSON lines with "text" on standard input; write those that the deployed classifier lets pass."""
    from control_plane.deployed import open_judge, passing

    with opened() as lathe:
        judge, counted = open_judge(lathe, name), {"kept": 0, "dropped": 0, "unreadable": 0}
        for line in passing(judge, sys.stdin, counted, drop=drop):
            typer.echo(line)
        notes().print(f"{counted['kept']} kept, {counted['dropped']} dropped, {counted['unreadable']} not readable")


@app.command()
def drift(
    name: Name,
    documents: Annotated[Path, typer.Argument(help='Recent texts: JSON lines with "text".')],
    as_json: Json = False,
) -> None:
    """Compare the scores of recent texts with those of the texts that the deployed classifier was evaluated on."""
    from control_plane.deployed import check_drift, open_judge
    from loops.quantify.documents import read_documents

    with opened() as lathe:
        found = check_drift(lathe.store, open_judge(lathe, name), read_documents(documents), time.time())
        print_json(found) if as_json else console().print(found["sentence"], markup=False)


def _f1(score: dict[str, float] | None) -> str:
    if score is None or score["value"] is None:
        return "-"
    return f"{score['value']:.3f} ({score['low']:.3f} to {score['high']:.3f})"
