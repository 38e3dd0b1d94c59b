"""Classifiers as a person deals with them: a need is stated, texts are labelled, versions compared, one deployed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from context_store import Store
from context_store.records import Investigation, Project
from contracts.errors import NotFound, UserInputError
from control_plane.disk import explained
from loops.quantify.casebook import LOOP, CaseBook, Question, documents_path
from loops.quantify.deployment import Deployed, copy_deployed
from loops.quantify.documents import Documents
from loops.quantify.labels import Label, agreements
from loops.quantify.need import Labeller, Need, Option

PROJECT = "classifiers"
Json = dict[str, Any]


def open_need(
    store: Store, cases: Path, need: Need, documents: Documents, at: float, deployed: Deployed | None = None
) -> Investigation:
    """A case for the need, with a copy of the texts in its folder below `cases`, and of what is `deployed` under its
    name now, which every version is held against; a worker takes it up.

    UserInputError when the reference labels are to be given and are not there, or a prompt of no model.
    """
    if need.option is Option.PROMPT and Labeller.MODEL not in need.labellers:
        raise UserInputError("without a model that labels there is no prompt", remedy="add model to --labellers")
    if need.labellers[0] is Labeller.GIVEN and not documents.labels:
        raise UserInputError("no text has a label", remedy="give --labels FILE, or let --labellers begin with person")
    for label in documents.labels.values():
        need.is_positive(label)
    number = 1 + len(of_name(store, need.name))
    case_id = f"classifier-{need.name}-{number}"
    folder = cases / case_id
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        documents.write(documents_path(folder))
        if deployed is not None:
            copy_deployed(deployed, folder)
    store.projects.put(Project(id=PROJECT, path=str(cases), backend="none"))
    case = store.knowledge.open_case(case_id, project_id=PROJECT, loop=LOOP, title=f"classifier {need.name}", at=at)
    base = None if deployed is None else deployed.payload.model_dump()
    CaseBook(store, case_id, at).put_need(need, documents.sha256, len(documents.texts), base)
    return case


def of_name(store: Store, name: str) -> list[str]:
    """Ids of the cases of a classifier, oldest first."""
    return [each.case_id for each in store.casework.of_loop(LOOP, "need") if each.body["name"] == name]


def newest(store: Store, name: str) -> str:
    """The id of a case, by itself or by the name of its classifier. Raises NotFound."""
    if found := of_name(store, name):
        return found[-1]
    if any(each.case_id == name for each in store.casework.of_loop(LOOP, "need")):
        return name
    raise NotFound(f"no classifier '{name}'", remedy="`lathe classifier list` shows them")


# --- labels of persons


def put_label(store: Store, case_id: str, batch: str, item: str, label: str, *, person: str, at: float) -> Json:
    """What a person says of a text. Returns the progress. Raises NotFound for a text that nobody asked about, and
    UserInputError where the same person has labelled it otherwise."""
    book = CaseBook(store, case_id, at)
    _put(book, [(batch, item, label)], person)
    return progress(book, person)


def put_labels(store: Store, case_id: str, labels: Sequence[tuple[str, str]], *, person: str, at: float) -> Json:
    """As `put_label`, of (item, label) wherever the case asked about the item: all of them, or none where one is
    refused. Returns the progress."""
    book = CaseBook(store, case_id, at)
    batches = {item: name for name, batch in book.batches().items() for item in batch["items"]}
    _put(book, [(batches.get(item, ""), item, label) for item, label in labels], person)
    return progress(book, person)


def _put(book: CaseBook, labels: Sequence[tuple[str, str, str]], person: str) -> None:
    """(batch, item, label) each; all are looked at before the first is written."""
    need, source, batches = book.need(), f"{Labeller.PERSON.value}:{person}", book.batches()
    told = {(each.batch, each.item): each.positive for each in book.told() if each.source == source}
    new = []
    for batch, item, label in labels:
        positive = need.is_positive(label)
        if item not in batches.get(batch, {"items": ()})["items"]:
            raise NotFound(f"nobody asked about '{item}' in {batch}", remedy="label what the next question shows")
        if told.setdefault((batch, item), positive) != positive:
            raise UserInputError(
                f"{person} has labelled '{item}' otherwise", remedy="a first label stays; a second person may differ"
            )
        new.append(Label(item=item, source=source, positive=positive, batch=batch))
    for each in new:
        book.put_label(each)


def next_question(book: CaseBook, person: str) -> Question | None:
    """The first text that waits for a person; after those, one that judges and that this person has not labelled."""
    done = {(each.batch, each.item) for each in book.told() if each.source == f"{Labeller.PERSON.value}:{person}"}
    waiting = [(batch, item) for batch, items in book.missing().items() for item in items]
    asked = {(each.batch, each.item): each for each in book.questions() if each.batch in book.batches()}
    for place in waiting + list(asked):
        if place in asked and place not in done:
            return asked[place]
    return None


def progress(book: CaseBook, person: str) -> Json:
    """How many texts wait for a person, how many were asked about in such batches, and how many this person did."""
    missing = sum(map(len, book.missing().values()))
    total = sum(len(b["items"]) for b in book.batches().values() if Labeller.PERSON.value in b["labellers"])
    mine = sum(each.source == f"{Labeller.PERSON.value}:{person}" for each in book.told())
    return {"waiting": missing, "asked": total, "mine": mine}


def agreement_of(book: CaseBook) -> list[Json]:
    """Of every two sources of labels so far; numbers that are none are None."""
    pairs = [asdict(each) for each in agreements(book.labels(), book.need().labellers)]
    for pair in pairs:
        pair["kappa"] = {name: value if np.isfinite(value) else None for name, value in pair["kappa"].items()}
    return pairs


# --- what versions are worth


def summary(store: Store, case_id: str) -> Json:
    """One line of the list."""
    book, case = CaseBook(store, case_id, 0.0), store.knowledge.investigation(case_id)
    need, standing = book.need(), book.standing()
    return {
        "case_id": case_id, "name": need.name, "need": need.need, "classes": list(need.classes), "state": case.state,
        "num_texts": book.need_body()["num_texts"], "num_versions": len(book.versions()),
        "waiting": sum(map(len, book.missing().values())), "opened_at": case.opened_at,
        "standing": None if standing is None else standing["number"],
        "f1": None if standing is None else standing["evaluation"]["f1"],
    }  # fmt: skip


def ladder(book: CaseBook) -> list[Json]:
    """Versions for the plot: scores with intervals, the change, whether it was taken and why."""
    return [
        {
            "number": each["number"], "why": each["revision"]["why"], "is_taken": each["decision"]["is_taken"],
            "reason": each["decision"]["reason"], "worse": each["decision"]["worse"],
            "f1": None if each.get("error") else each["evaluation"]["f1"],
            "accuracy": None if each.get("error") else each["evaluation"]["accuracy"],
            "num_labels": each.get("num_labels"), "clusters": each.get("clusters", []),
        }
        for each in book.versions()
    ]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Of the confusion: texts of a slice with this reference label and this answer."""

    slice: str
    wanted: str
    said: str


def confusion(book: CaseBook, number: int, attribute: str) -> list[Json]:
    """Counts of each cell, by the values of `attribute` ("" for all texts together)."""
    counted: dict[tuple[str, str, str], int] = {}
    for row in _rows(book, number, attribute):
        counted[row["slice"], row["wanted"], row["said"]] = (
            counted.get((row["slice"], row["wanted"], row["said"]), 0) + 1
        )
    return [
        {"slice": name, "wanted": wanted, "said": said, "num_texts": num}
        for (name, wanted, said), num in sorted(counted.items())
    ]


def texts_of(book: CaseBook, number: int, attribute: str, cell: Cell, limit: int) -> list[Json]:
    """The texts of a cell, those that the version was surest of first."""
    rows = [
        row
        for row in _rows(book, number, attribute)
        if Cell(**{k: row[k] for k in ("slice", "wanted", "said")}) == cell
    ]
    return sorted(rows, key=lambda row: -abs(row["probability"] - 0.5))[:limit]


def attributes(book: CaseBook) -> list[str]:
    """By which the confusion can be split."""
    return sorted({name for each in book.questions("evaluation") for name in each.slices})


def _rows(book: CaseBook, number: int, attribute: str) -> Sequence[Json]:
    need, shown = book.need(), {each.item: each for each in book.questions("evaluation")}
    version = next((each for each in book.versions() if each["number"] == number and not each.get("error")), None)
    if version is None:
        raise NotFound(f"no version {number} of {need.name}", remedy="take one of its ladder")
    found = zip(version["items"], version["probabilities"], version["labels"], strict=True)
    return [
        {
            "item": item, "text": shown[item].text, "probability": probability,
            "slice": _value(shown[item].slices, attribute), "wanted": need.classes[0 if label else 1],
            "said": need.classes[0 if probability >= version["threshold"] else 1],
        }
        for item, probability, label in found
    ]  # fmt: skip


def _value(slices: Mapping[str, str], attribute: str) -> str:
    return str(slices.get(attribute, "")) if attribute else ""
