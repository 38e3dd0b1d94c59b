"""A case opened for work: its texts, labels and fixed sets, as arrays."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from contracts.errors import UserInputError
from loops.classifiers.groups import Ints
from loops.core import Workplace
from loops.pipelines.component import EvaluationSet, digest_of
from loops.quantify.casebook import EVALUATION, HELD_OUT, CaseBook, documents_path
from loops.quantify.documents import Documents, read_documents
from loops.quantify.labels import Label, reference
from loops.quantify.need import Labeller, Need
from loops.quantify.versions import Corpus

GROUPS_FILE = "groups.npy"


@dataclass(frozen=True, kw_only=True)
class Bench:
    """`evaluation`, `held_out`: numbers of the texts that have a reference label. `labels`: all that count."""

    need: Need
    documents: Documents
    corpus: Corpus
    evaluation: Ints
    held_out: Ints
    on: EvaluationSet
    labels: Sequence[Label]

    def ids(self, numbers: Ints) -> list[str]:
        return _ids(self.documents, numbers)

    def slices(self, numbers: Ints) -> dict[str, list[str]]:
        return {name: [values[each] for each in numbers.tolist()] for name, values in self.corpus.slices.items()}


def book_of(place: Workplace) -> CaseBook:
    return CaseBook(place.store, place.case_id, time.time())


def open_bench(place: Workplace, book: CaseBook) -> Bench:
    """Raises UserInputError when the documents are not those that the case was opened with."""
    need, documents, sampled = book.need(), read_documents(documents_path(place.folder)), book.sample()
    assert sampled is not None
    if book.need_body()["documents_sha256"] not in (documents.sha256, documents.texts_sha256):
        raise UserInputError("the documents of this case were changed", remedy="open a new case for other documents")
    labels = [*_given(documents, need, book), *book.labels()]
    counted = reference(labels, need.labellers)
    judged = _judged(book)
    counted |= judged
    known = np.array([item in counted for item in documents.ids])
    truth = np.array([counted.get(item, False) for item in documents.ids])
    groups = np.load(place.folder / GROUPS_FILE)
    evaluation, held_out = (_numbers(documents, sampled[name]) for name in (EVALUATION, HELD_OUT))
    pool = np.ones(groups.size, dtype=np.bool_)
    pool[np.concatenate([evaluation, held_out])] = False
    corpus = Corpus(texts=documents.texts, groups=groups, slices=documents.slices, known=known, labels=truth, pool=pool)
    evaluation, held_out = evaluation[known[evaluation]], held_out[known[held_out]]
    if judged:
        evaluation = _numbers(documents, list(judged))
    slices = {name: [values[each] for each in evaluation.tolist()] for name, values in documents.slices.items()}
    judging = digest_of([sampled["sha256"], _ids(documents, evaluation), truth[evaluation].tolist(), slices])
    return Bench(
        need=need, documents=documents, corpus=corpus, evaluation=evaluation, held_out=held_out, labels=labels,
        on=EvaluationSet(sha256=_same(judging, book, str(sampled["sha256"])), groups=groups[evaluation], slices=slices),
    )  # fmt: skip


def _first(book: CaseBook) -> Mapping[str, Any] | None:
    return next((each for each in book.versions() if not each.get("error")), None)


def _judged(book: CaseBook) -> dict[str, bool]:
    """Texts and labels that judged the first version; they judge all others too, whatever anybody says later."""
    first = _first(book)
    return {} if first is None else dict(zip(first["items"], first["labels"], strict=True))


def _same(sha256: str, book: CaseBook, sampled: str) -> str:
    """Hash of the set that judges: texts, labels and slices. Raises UserInputError when it is not the first version's
    (older versions know the sample alone)."""
    first = _first(book)
    if first is None or first["evaluation_sha256"] == sha256:
        return sha256
    if first["evaluation_sha256"] != sampled:
        raise UserInputError("the set that judges this case was changed", remedy="open a new case for other documents")
    return sampled


def _ids(documents: Documents, numbers: Ints) -> list[str]:
    return [documents.ids[each] for each in numbers.tolist()]


def _numbers(documents: Documents, items: Sequence[str]) -> Ints:
    place = documents.place()
    return np.array(sorted(place[item] for item in items), dtype=np.int64)


def _given(documents: Documents, need: Need, book: CaseBook) -> list[Label]:
    """Labels that came with the texts: those of texts that judge, and of those that were asked for in training."""
    if Labeller.GIVEN not in need.labellers:
        return []
    asked = {item for batch in book.batches().values() for item in batch["items"]}
    return [
        Label(item=item, source=Labeller.GIVEN.value, positive=need.is_positive(label))
        for item, label in documents.labels.items()
        if item in asked
    ]


def basis(versions: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The version of this case whose analysis the next one answers: the one taken last, else the last one made."""
    made = [each for each in versions if each["number"] > 0 and not each.get("error")]
    return ([each for each in made if each["decision"]["is_taken"]] or made)[-1]
