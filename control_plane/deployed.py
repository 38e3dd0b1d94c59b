"""The use of a deployed classifier: scoring texts, and watching whether they still look like those it was judged on.

A deployed prompt (option A) asks its language model about every text.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from context_store import Store
from contracts.errors import NotFound, UserInputError
from control_plane.classifiers import PROJECT
from loops.classifiers.drift import drift
from loops.classifiers.model import Classifier
from loops.classifiers.rules import Rule
from loops.quantify.casebook import CaseBook
from loops.quantify.deployment import PROMPT_FILE, DeployPayload, current, read_model, require_model
from loops.quantify.documents import Documents, row_with_text
from loops.quantify.labeller import Asker, DoorAsker
from loops.quantify.need import Need
from loops.quantify.prompts import LabelPrompt, read_answer, read_prompt
from loops.quantify.versions import probabilities

if TYPE_CHECKING:
    from control_plane.wiring import Lathe

_BATCH = 1000


class Judge(Protocol):
    """What is deployed under a name. `threshold`: from this probability on a text is positive."""

    @property
    def payload(self) -> DeployPayload: ...

    @property
    def threshold(self) -> float: ...

    def probabilities(self, texts: Sequence[str]) -> list[float | None]:
        """None where an answer could not be read."""
        ...


@dataclass(frozen=True, kw_only=True)
class ByModel:
    payload: DeployPayload
    model: Classifier
    rules: tuple[Rule, ...]
    threshold: float

    def probabilities(self, texts: Sequence[str]) -> list[float | None]:
        return [*probabilities(self.model, self.rules, texts).tolist()]


@dataclass(frozen=True, kw_only=True)
class ByPrompt:
    payload: DeployPayload
    prompt: LabelPrompt
    asker: Asker
    need: Need
    threshold: float = 0.5

    def probabilities(self, texts: Sequence[str]) -> list[float | None]:
        """0 or 1. Raises BudgetExceeded and what the door does."""
        said = (read_answer(self.asker.ask(*self.prompt.messages(text)), self.need) for text in texts)
        return [None if each is None else float(each) for each in said]


def open_judge(lathe: Lathe, name: str) -> Judge:
    """NotFound where nothing is deployed, UserInputError for a prompt without the model it was approved with; that one
    may spend in a day what a chat may, within what its project may."""
    from control_plane.chat import mind_of

    deployed = current(lathe.settings.classifiers_folder, name)
    if deployed is None:
        raise NotFound(f"nothing is deployed as '{name}'", remedy="approve its proposal: lathe proposals list")
    payload = deployed.payload
    if payload.option == "model":
        model, rules = read_model(deployed.folder)
        return ByModel(payload=payload, model=model, rules=rules, threshold=model.threshold)
    day = time.strftime("%Y-%m-%d", time.gmtime())
    door = mind_of(lathe).door(lathe.store, f"classifier:{name}:{day}", PROJECT)
    if door is None:
        raise UserInputError(f"{name} is deployed as a prompt, and no model is set", remedy="set LATHE_MODEL")
    require_model(payload, door.model_name)
    need = CaseBook(lathe.store, payload.case_id, time.time()).need()
    return ByPrompt(
        payload=payload, prompt=read_prompt(deployed.folder / PROMPT_FILE), asker=DoorAsker(door), need=need
    )  # fmt: skip


def score_lines(judge: Judge, lines: Iterable[str]) -> Iterator[str]:
    """JSON lines with `probability` and `is_positive` added; both null where an answer could not be read. Raises
    UserInputError that names the line."""
    return (json.dumps(row) for row in _scored(judge, lines))


def passing(judge: Judge, lines: Iterable[str], counted: dict[str, int], *, drop: bool) -> Iterator[str]:
    """The lines of positive texts as they came; with `drop` those of all others. What cannot be judged is kept."""
    for row in _scored(judge, lines):
        said = row.pop("is_positive")
        del row["probability"]
        counted["unreadable"] += said is None
        is_kept = said is None or said != drop
        counted["kept" if is_kept else "dropped"] += 1
        if is_kept:
            yield json.dumps(row)


def _scored(judge: Judge, lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            rows.append(row_with_text(number, line))
        if len(rows) == _BATCH:
            yield from _told(judge, rows)
            rows = []
    yield from _told(judge, rows)


def _told(judge: Judge, rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    found = judge.probabilities([row["text"] for row in rows]) if rows else []
    for row, each in zip(rows, found, strict=True):
        yield {**row, "probability": each, "is_positive": None if each is None else each >= judge.threshold}


def check_drift(store: Store, judge: Judge, recent: Documents, at: float) -> dict[str, Any]:
    """What is found is written down in the case, and told where it matters. Without labels it can say that the scores
    have changed, not that the classifier has become worse."""
    payload = judge.payload
    book = CaseBook(store, payload.case_id, at)
    now = np.array([each for each in judge.probabilities(recent.texts) if each is not None])
    if not now.size:
        raise UserInputError("no answer of the model could be read", remedy="look at some: lathe classifier score")
    found = drift(np.array(_before(book, payload)), now, judge.threshold)
    said = "the scores drifted: label some of these texts and open a new case"
    sentence = (
        f"{payload.name} {_what(payload)}: {said if found.has_drifted else 'no drift of its scores that matters'} "
        f"(distance {found.distance:.3f}, p {found.p:.2g}; positive {found.share_positive_before:.1%} of the "
        f"evaluation set, {found.share_positive_now:.1%} of {now.size} texts)"
    )
    body = {**vars(found), "sentence": sentence, "documents_sha256": recent.sha256, "num_texts": int(now.size)}
    if book.put_drift(f"{recent.sha256[:16]}:{payload.sha256[:16]}", body) and found.has_drifted:
        store.activity.publish("finding", sentence, investigation_id=payload.case_id)
    return body


def _before(book: CaseBook, payload: DeployPayload) -> Sequence[float]:
    """Scores of the texts that it was evaluated on."""
    if payload.option == "prompt":
        final = book.final()
        answers: Sequence[float] = [] if final is None else final["prompt"]["answers"]
        return answers
    (version,) = (each for each in book.versions() if each["number"] == payload.version)
    scores: Sequence[float] = version["probabilities"]
    return scores


def _what(payload: DeployPayload) -> str:
    return "prompt" if payload.option == "prompt" else f"version {payload.version}"
