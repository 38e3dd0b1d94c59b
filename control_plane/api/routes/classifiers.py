"""Classifiers: what was asked for, the texts that wait for labels, the versions, and where a version is wrong.

A need is stated with its texts on the machine itself (`lathe classifier new`). What is to be deployed is a proposal
like any other (kind `deploy_classifier`).
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field, StringConstraints

from context_store import Store
from contracts.enums import InvestigationState
from control_plane import classifiers as found
from control_plane.api.access import ClockDep, PrincipalDep, ResearcherDep, StoreDep
from control_plane.api.answer import Answer
from control_plane.api.bodies import Body, Page, PagingDep, page
from loops.quantify.card import card
from loops.quantify.casebook import LOOP, CaseBook

router = APIRouter(prefix="/classifiers", tags=["classifiers"])
_Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
_Word = Annotated[str, Query(max_length=200)]
_MOST_TEXTS = 100


class Interval(Body):
    """A rate with its 95 % interval; null where it is none."""

    value: float | None
    low: float | None
    high: float | None


class ClassifierLine(Body):
    """`waiting`: texts that wait for a person's label. `standing`: the version that stands."""

    case_id: str
    name: str
    need: str
    classes: list[str]
    state: InvestigationState
    num_texts: int
    num_versions: int
    waiting: int
    opened_at: float
    standing: int | None
    f1: Interval | None


class ClassifierPage(Page):
    classifiers: list[ClassifierLine]


class Version(Body):
    """One step of the ladder. `worse`: slices that stopped it. `clusters`: its mistakes on the evaluation set."""

    number: int
    why: str
    is_taken: bool
    reason: str
    worse: list[str]
    f1: Interval | None
    accuracy: Interval | None
    num_labels: int | None
    clusters: list[dict[str, Any]]


class Agreement(Body):
    """Of two labellers on the texts that both labelled."""

    first: str
    second: str
    num_texts: int
    share: Interval
    kappa: Interval


class OneClassifier(Body):
    """`attributes`: by which its confusion can be split. `card`: the model card, Markdown."""

    classifier: ClassifierLine
    ladder: list[Version]
    agreements: list[Agreement]
    attributes: list[str]
    card: str


class Progress(Body):
    """`asked`: texts that persons have to label, `waiting`: those without a label yet, `mine`: labelled by you."""

    waiting: int
    asked: int
    mine: int


class Question(Body):
    batch: str
    item: str
    text: str
    slices: dict[str, str]


class NextQuestion(Body):
    """`question`: null when everything is labelled. No label of anybody else is shown, so that yours is your own."""

    question: Question | None
    progress: Progress


class NewLabel(Body):
    batch: _Name
    item: _Name
    label: _Name


class Cell(Body):
    slice: str
    wanted: str
    said: str
    num_texts: int


class Confusion(Body):
    cells: list[Cell]


class WrongText(Body):
    item: str
    text: str
    probability: float = Field(ge=0.0, le=1.0)


class Texts(Body):
    texts: list[WrongText]


@router.get("", response_model=ClassifierPage)
def classifiers(store: StoreDep, wish: PagingDep) -> Answer:
    """Newest first."""
    cases = [each.case_id for each in store.casework.of_loop(LOOP, "need")]
    chosen, following = page(reversed(cases), wish, str)
    return Answer({"classifiers": [found.summary(store, case_id) for case_id in chosen], "next": following})


@router.get("/{case_id}", response_model=OneClassifier)
def classifier(store: StoreDep, clock: ClockDep, case_id: str) -> Answer:
    """One classifier: its versions, how far its labellers agree, its card."""
    book = _book(store, clock(), case_id)
    return Answer(
        {
            "classifier": found.summary(store, case_id), "ladder": found.ladder(book),
            "agreements": found.agreement_of(book), "attributes": found.attributes(book), "card": card(book),
        }
    )  # fmt: skip


@router.get("/{case_id}/next", response_model=NextQuestion)
def next_question(store: StoreDep, clock: ClockDep, principal: PrincipalDep, case_id: str) -> Answer:
    """The next text for you to label."""
    book = _book(store, clock(), case_id)
    question = found.next_question(book, principal.name)
    shown = None if question is None else {
        "batch": question.batch, "item": question.item, "text": question.text, "slices": dict(question.slices)
    }  # fmt: skip
    return Answer({"question": shown, "progress": found.progress(book, principal.name)})


@router.post("/{case_id}/labels", response_model=Progress)
def label(store: StoreDep, clock: ClockDep, principal: ResearcherDep, case_id: str, wish: NewLabel) -> Answer:
    """Say of a text what it is. What you said first stays."""
    _book(store, clock(), case_id)
    done = found.put_label(store, case_id, wish.batch, wish.item, wish.label, person=principal.name, at=clock())
    return Answer(done)


@router.get("/{case_id}/confusion", response_model=Confusion)
def confusion(store: StoreDep, clock: ClockDep, case_id: str, version: int, attribute: _Word = "") -> Answer:
    """How many texts a version told right and wrong on the evaluation set, by slice."""
    return Answer({"cells": found.confusion(_book(store, clock(), case_id), version, attribute)})


@router.get("/{case_id}/texts", response_model=Texts)
def texts(
    store: StoreDep, clock: ClockDep, case_id: str, version: int, wanted: _Word, said: _Word, attribute: _Word = "",
    slice_value: Annotated[str, Query(alias="slice", max_length=200)] = "",
) -> Answer:  # fmt: skip
    """The texts of one cell, those that the version was surest of first."""
    cell = found.Cell(slice=slice_value, wanted=wanted, said=said)
    rows = found.texts_of(_book(store, clock(), case_id), version, attribute, cell, _MOST_TEXTS)
    return Answer({"texts": [{key: row[key] for key in ("item", "text", "probability")} for row in rows]})


def _book(store: Store, at: float, case_id: str) -> CaseBook:
    """Raises NotFound for what is no classifier."""
    book = CaseBook(store, case_id, at)
    book.need()
    return book
